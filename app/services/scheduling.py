"""Scheduling: what schedules there are, and which runs of them have become due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from app import clock
from app.domain.moments import moment
from app.domain.naming import MOST_OF_A_SCHEDULE, check_name
from app.domain.schedules import (
    Rule,
    Schedule,
    ScheduleState,
    begins_at,
    check,
    due,
    note,
    times,
)
from app.domain.zones import zone_named
from app.errors import Conflict
from app.services.refusals import check_keepable
from app.services.schedule_named import schedule_named
from app.services.templates import checked_template
from app.storage.database import Database, database_now
from app.storage.schedule_run_store import PlannedRun, Run, ScheduleRunStore
from app.storage.schedule_store import ScheduleStore


@dataclass(frozen=True, slots=True)
class Next:
    """A nominal time to come: in UTC, as the wall of its zone shows it, and what the clocks do."""

    at: datetime
    local: datetime
    note: str | None


class Scheduling:
    """The use case behind `giveway schedules` and the tick that plans, once a nominal time, whoever
    ticks. `ScheduleRuns` launches what is planned."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, name: str, rule: Rule, template: Mapping[str, Any]) -> Schedule:
        """A new schedule, whose first time is after now. UsageError: what cannot be; Conflict: the
        name is taken."""
        check_name("the schedule's name", name, MOST_OF_A_SCHEDULE)
        check(rule)
        asked = checked_template(template)
        moment(asked.deadline, clock.now())
        check_keepable(asked.source.model_dump(mode="json"))
        check_keepable(template)
        with self._database.transaction() as tx:
            store = ScheduleStore(tx)
            if not store.add(name, rule, template, database_now(tx)):
                raise Conflict(
                    f"schedule {name!r} is there already; `giveway schedules remove {name}` first"
                )
            schedule = store.find(name)
        assert schedule is not None
        return schedule

    def listed(self) -> list[Schedule]:
        """All schedules, by name."""
        with self._database.transaction() as tx:
            return ScheduleStore(tx).listed()

    def named(self, name: str) -> Schedule:
        """The schedule called `name`. NotFound: there is none."""
        with self._database.transaction() as tx:
            return schedule_named(tx, name)

    def upcoming(self, schedule: Schedule, count: int, after: datetime) -> list[Next]:
        """Its next `count` nominal times after `after`."""
        zone = zone_named(schedule.rule.timezone)
        return [
            Next(at, at.astimezone(zone), note(schedule.rule, at))
            for at in islice(times(schedule.rule, after), count)
        ]

    def history(self, name: str, most: int) -> list[Run]:
        """Its newest runs first."""
        schedule = self.named(name)
        with self._database.transaction() as tx:
            return ScheduleRunStore(tx).history(schedule.id, most)

    def set_state(self, name: str, state: ScheduleState) -> Schedule:
        """Pause it, so that its times pass by, or resume it; twice is no error."""
        self.named(name)
        with self._database.transaction() as tx:
            ScheduleStore(tx).set_state(name, state, database_now(tx))
        return self.named(name)

    def remove(self, name: str) -> None:
        """It fires no more, and its history is gone; its jobs stay."""
        self.named(name)
        with self._database.transaction() as tx:
            ScheduleStore(tx).remove(name)

    def tick(self, now: datetime | None = None) -> int:
        """Plan what has become due; how many runs were written down. `now` None: now."""
        with self._database.transaction() as tx:
            store = ScheduleStore(tx)
            at = now or database_now(tx)
            hot = [
                one.id
                for one in store.active()
                if due(one.rule, one.seen_until, at, 1).seen_until != one.seen_until
            ]
            planned: list[PlannedRun] = []
            seen: dict[int, datetime] = {}
            for schedule in store.lock(hot):
                found = due(schedule.rule, schedule.seen_until, at)
                planned += _runs(schedule, found.runs)
                planned += [
                    PlannedRun(schedule.id, one.at, one.at, one.reason) for one in found.skipped
                ]
                seen[schedule.id] = found.seen_until
            new = ScheduleRunStore(tx).plan(planned)
            store.see(seen)
        return new


def _runs(schedule: Schedule, nominals: Sequence[datetime]) -> list[PlannedRun]:
    return [
        PlannedRun(schedule.id, at, begins_at(schedule.name, schedule.rule, at)) for at in nominals
    ]
