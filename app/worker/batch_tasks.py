"""`giveway.batch.KIND`: one task a chunk. A task is a doorbell: it parses ids, calls services."""

from __future__ import annotations

import logging
import traceback
from typing import Any

from celery import Celery

from app import clock
from app.errors import DatabaseUnavailable
from app.kinds.registry import kinds
from app.wiring import Wiring
from app.worker import observer
from app.worker.filling import Filling

log = logging.getLogger(__name__)


def register(app: Celery, wiring: Wiring) -> None:
    """A task for each kind there is."""

    def ring() -> None:  # Not before the first chunk: until then a process may still be forked.
        wiring.ringing.ring_all()

    filling = Filling(ring)
    for name in kinds():
        app.task(
            name=f"giveway.batch.{name}",
            ignore_result=True,
            acks_late=False,
            store_errors_even_if_ignored=False,
            send_events=False,  # `observer` sends those of chunks; an empty ring leaves no trace.
        )(_of(wiring, filling))


def _of(wiring: Wiring, filling: Filling) -> Any:
    def work_on_chunk(job: int, kind: str) -> dict[str, Any]:  # noqa: ARG001
        """Work on one chunk of `job`; `kind` is for the eyes of whoever watches."""
        began_s = clock.monotonic_s()
        try:
            result = _worked(wiring, filling, int(job))
        except Exception as error:
            observer.broke(error, traceback.format_exc())
            raise
        observer.ended(result, clock.monotonic_s() - began_s)
        return result

    return work_on_chunk


def _worked(wiring: Wiring, filling: Filling, job: int) -> dict[str, Any]:
    """What became of the ring, in short facts."""
    try:
        with filling.working():
            report = wiring.execution.run(job)
        if report.ended not in _NOTHING_DONE:
            # The place first: every moment it stands empty is batch work not done.
            wiring.ringing.ring_all()
            wiring.completion.sweep()
    except DatabaseUnavailable as error:
        # Nothing is lost: the lease lapses or the next tick rings again.
        log.warning("job %s: %s", job, error)
        return {"done": 0, "failed": 0, "tokens": 0, "seconds": 0.0, "ended": "database"}
    return {
        "done": report.done,
        "failed": report.failed,
        "tokens": report.tokens,
        "seconds": report.seconds,
        "ended": report.ended,
    }


_NOTHING_DONE = frozenset(
    {"limit", "total", "stopping", "endpoints", "no_limit_row", "pool_gone", "unknown_kind"}
)
