"""What Flower sees of batch: a task for each chunk that is worked on, and how far it is.

A ring is a task of Celery's too, but says nothing: most would be there again a second later. So
Celery's own events of these tasks are off, and they are sent here, once a chunk is leased, with its
job's key in place of the message's arguments.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import current_task

from app.domain.events import ChunkLeased, Event, MicroBatchDone

log = logging.getLogger(__name__)

_BEGUN = "giveway_begun"
"""Of a request of Celery's: its chunk has been told of."""


class TaskProgress:
    """An observer that sends events from within a task; elsewhere it is silent."""

    def saw(self, event: Event) -> None:
        """Send what begins a task, and `task-progress` for a micro-batch; other facts are not
        Flower's."""
        if not current_task:
            return
        match event:
            case ChunkLeased():
                _begin(event)
            case MicroBatchDone():
                _send("task-progress", done=event.done, failed=event.failed, tokens=event.tokens)
            case _:
                pass


def ended(result: dict[str, Any], runtime_s: float) -> None:
    """The chunk of the present task is worked on no more; nothing is sent where none was leased."""
    if getattr(current_task.request, _BEGUN, False):
        _send("task-succeeded", result=repr(result), runtime=runtime_s)


def broke(error: Exception, traceback: str) -> None:
    """The same, where an error of ours ended it."""
    if getattr(current_task.request, _BEGUN, False):
        _send("task-failed", exception=repr(error), traceback=traceback)


def _begin(event: ChunkLeased) -> None:
    """As a worker tells of a task that it received and started."""
    facts = {
        "key": event.key,
        "kind": event.kind,
        "job": event.job_id,
        "chunk": event.no,
        "items": event.items,
        "attempt": event.attempt,
        "endpoint": event.endpoint,
    }
    request = current_task.request
    setattr(request, _BEGUN, True)
    _send(
        "task-received",
        name=current_task.name,
        args="()",
        kwargs=repr(facts),
        root_id=request.root_id,
        parent_id=None,
        retries=event.attempt,
    )
    _send("task-started")


def _send(what: str, **fields: Any) -> None:
    """One event of the present task. Work never waits for who looks on, nor fails for them."""
    try:
        current_task.send_event(what, retry=False, **fields)
    except Exception as error:  # noqa: BLE001 - each broker's client has errors of its own
        log.debug("no %s: %s", what, type(error).__name__)
