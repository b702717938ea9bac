"""Telling Flower how far a chunk is: task-progress events of the task that works on it."""

from __future__ import annotations

from celery import current_task

from app.domain.events import Event, MicroBatchDone


class TaskProgress:
    """An observer that sends events from within a task; elsewhere it is silent."""

    def saw(self, event: Event) -> None:
        """Send `task-progress` for a micro-batch; other facts are not Flower's."""
        if not isinstance(event, MicroBatchDone) or not current_task:
            return
        current_task.send_event(
            "task-progress",
            retry=False,
            done=event.done,
            failed=event.failed,
            tokens=event.tokens,
        )
