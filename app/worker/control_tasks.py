"""`giveway.control.*`: what beat's ticks set off. Each may be lost or doubled without harm."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from celery import Celery

from app.errors import DatabaseUnavailable
from app.wiring import Wiring

log = logging.getLogger(__name__)


def register(app: Celery, wiring: Wiring) -> None:
    """The ticks."""

    def throttle() -> dict[str, Any]:
        """Recompute every pool's limit, then ring for the places that are free now."""
        decisions = wiring.throttling.tick_all()
        rung = wiring.ringing.ring_all()
        return {"limits": {name: d.limit for name, d in decisions.items()}, "rung": rung}

    def rescue() -> dict[str, Any]:
        """Take back what ran out."""
        return {"rescued": wiring.rescue.sweep()}

    def complete() -> dict[str, Any]:
        """Finish jobs with nothing left to do."""
        return {"finished": wiring.completion.sweep()}

    def prune() -> dict[str, Any]:
        """Delete old rows."""
        return {"pruned": wiring.retention.prune()}

    for act in (throttle, rescue, complete, prune):
        app.task(name=f"giveway.control.{act.__name__}", ignore_result=True)(_patient(act))


def _patient(act: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """A database that is away is a warning a tick, not a traceback a tick."""

    def tick() -> dict[str, Any]:
        try:
            return act()
        except DatabaseUnavailable as error:
            log.warning("%s: %s", act.__name__, error)
            return {"database": "unavailable"}

    tick.__doc__ = act.__doc__
    return tick
