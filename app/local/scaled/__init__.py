"""Endpoints as processes of this machine, as many as automatic scaling wants."""
