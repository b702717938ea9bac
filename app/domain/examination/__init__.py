"""Examination of a running installation: plain figures in, findings out."""
