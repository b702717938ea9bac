"""Telling Flower how far a chunk is: task-progress events of the task that works on it."""

from __future__ import annotations

from celery import Celery, current_task

from app.domain.events import Event, MicroBatchDone


class TaskProgress:
    """An observer that sends events from within a task; elsewhere it is silent."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def saw(self, event: Event) -> None:
        """Send `task-progress` for a micro-batch; other facts are not Flower's."""
        if not isinstance(event, MicroBatchDone) or not current_task:
            return
        dispatcher = getattr(current_task.request, "event_dispatcher", None)
        with self._app.events.default_dispatcher() as own:
            (dispatcher or own).send(
                "task-progress",
                uuid=current_task.request.id,
                retry=False,
                done=event.done,
                failed=event.failed,
                tokens=event.tokens,
            )
