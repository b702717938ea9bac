"""Giveway: batch LLM work that gives way to people who are waiting.

`celery -A app worker …` finds the Celery app through `celery` below; nothing is imported before.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "celery":
        from app.worker.celery_app import celery

        return celery
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
