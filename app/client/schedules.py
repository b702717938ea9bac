"""Schedules from Python: the verbs of `giveway schedules`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from app import clock
from app.client.jobs import JobHandle
from app.client.sources import Source
from app.client.words import word
from app.domain.schedules import Missed, Overlap, Rule, Schedule, ScheduleState
from app.errors import StateConflict
from app.services.scheduling import Next
from app.services.templates import JobTemplate, asked_template
from app.storage.schedule_run_store import Run
from app.wiring import Wiring
from app.worker import reaching


class Schedules:
    """All schedules; `Giveway.schedules`."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring

    def add(
        self,
        name: str,
        kind: str,
        source: Source | str | Path,
        *,
        cron: str,
        timezone: str = "UTC",
        missed: Missed | str = Missed.LATEST,
        missed_within_s: float = 3 * 86_400.0,
        overlap: Overlap | str = Overlap.SKIP,
        jitter_s: float = 0.0,
        done_by: str | None = None,
        options: dict[str, Any] | None = None,
        **params: Any,
    ) -> Schedule:
        """A new schedule that submits a job of `kind` at each of its times.

        `options` are those of `JobTemplate` (window, tenant, webhook, …); `params` the kind's. The
        source is opened at each run, by the control worker.
        """
        rule = Rule(
            cron=cron,
            timezone=timezone,
            missed=word(Missed, "policy for missed runs", missed),
            missed_within_s=missed_within_s,
            overlap=word(Overlap, "policy for overlaps", overlap),
            jitter_s=jitter_s,
            done_by=done_by,
        )
        read = source if isinstance(source, Source) else Source(source)
        template: JobTemplate = asked_template(
            {"kind": kind, "params": params, "source": read.template(), **(options or {})}
        ).kept(Path.cwd())
        return self._wiring.scheduling.add(name, rule, template.model_dump(mode="json"))

    def list(self) -> Sequence[Schedule]:
        """All of them, by name."""
        return self._wiring.scheduling.listed()

    def get(self, name: str) -> Schedule:
        """The schedule called `name`. NotFound: there is none."""
        return self._wiring.scheduling.named(name)

    def next(self, name: str, count: int = 5, after: datetime | None = None) -> Sequence[Next]:
        """Its next nominal times, after `after` or now."""
        schedule = self.get(name)
        return self._wiring.scheduling.upcoming(schedule, count, after or clock.now())

    def pause(self, name: str) -> Schedule:
        """Its times pass by."""
        return self._wiring.scheduling.set_state(name, ScheduleState.PAUSED)

    def resume(self, name: str) -> Schedule:
        """It fires again; what came meanwhile is not made up for."""
        return self._wiring.scheduling.set_state(name, ScheduleState.ACTIVE)

    def run(self, name: str) -> JobHandle:
        """Launch it now. StateConflict: its overlap policy, or a fault, stands in the way."""
        done = self._wiring.schedule_runs.run(name)
        if done.job is None:
            raise StateConflict(f"schedule {name!r} was not launched: {done.reason}")
        reaching.ring(self._wiring, done.job.pool)
        return JobHandle(self._wiring, done.job, created=True)

    def remove(self, name: str) -> None:
        """It fires no more; its jobs stay."""
        self._wiring.scheduling.remove(name)

    def history(self, name: str, most: int = 20) -> Sequence[Run]:
        """Its newest runs first."""
        return self._wiring.scheduling.history(name, most)
