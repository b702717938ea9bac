"""Reaching the broker, as commands do; see `worker.reaching`."""

from __future__ import annotations

from app.worker.looking import look
from app.worker.reaching import celery_of, celery_that_answers, reachable, ring

__all__ = ["celery_of", "celery_that_answers", "look", "reachable", "ring"]
