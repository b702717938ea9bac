"""`giveway.control.*`: what beat's ticks set off. Each may be lost or doubled without harm."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from celery import Celery

from app.errors import DatabaseUnavailable
from app.services.schedule_runs import MOST_AT_ONCE
from app.wiring import Wiring
from app.worker.queues import CONTROL

log = logging.getLogger(__name__)

_LAUNCH_EXPIRES_S = 10
"""The ticks ring again for a run that nobody has taken."""


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

    def index() -> dict[str, Any]:
        """Build and drop indexes of collections."""
        return {"indexes": wiring.indexing.sweep()}

    def probe() -> dict[str, Any]:
        """Ask open endpoints whether they are well again, and tell slow ones from the rest."""
        return {"probed": wiring.probing.tick(wait_s=1.0)}

    def learn() -> dict[str, Any]:
        """Learn what size of micro-batch each endpoint carries."""
        found = wiring.learning.tick()
        return {"items": {f"{name} {model}": round(k.items) for (name, model), k in found.items()}}

    def scale() -> dict[str, Any]:
        """Decide how many endpoints each scaled pool should have."""
        return {"wanted": {pool: one.wanted for pool, one in wiring.scaling.tick().items()}}

    def schedule() -> dict[str, Any]:
        """Plan the runs that are due, and ring for those that can be launched."""
        planned = wiring.scheduling.tick()
        rings = min(wiring.schedule_runs.waiting(), MOST_AT_ONCE)
        for _ in range(rings):
            app.send_task(
                "giveway.control.launch", queue=CONTROL, expires=_LAUNCH_EXPIRES_S, retry=False
            )
        return {"planned": planned, "rung": rings}

    def launch() -> dict[str, Any]:
        """Launch one due run: slow, since it loads the source. Ring for its job after."""
        done = wiring.schedule_runs.launch()
        if done is None:
            return {"launched": None}
        if done.job is not None:
            wiring.ringing.ring(done.job.pool)
        return {"schedule": done.schedule, "job": done.job and done.job.id, "state": done.state}

    def tell() -> dict[str, Any]:
        """Send the webhooks that are due."""
        return {"told": wiring.telling.tell()}

    acts = (throttle, rescue, complete, prune, index, learn, probe, scale, schedule, launch, tell)
    for act in acts:
        # Ticks say nothing new, a few a second: whoever watches would lose the night for them.
        app.task(name=f"giveway.control.{act.__name__}", ignore_result=True, send_events=False)(
            _patient(act)
        )


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
