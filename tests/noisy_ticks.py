"""The mutant of a worker whose ticks tell of themselves, as Celery's tasks do by themselves."""

from __future__ import annotations

from app import celery

for name, task in celery.tasks.items():
    if name.startswith("giveway.control."):
        task.send_events = True
