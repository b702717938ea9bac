"""Scheduling: what is due is planned once, and launched once, whoever ticks and whoever crashes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from app import clock
from app.domain.events import JobSteered, Observer, RunFailed, RunLaunched, RunSkipped
from app.domain.jobs import Job, JobState
from app.domain.moments import moment
from app.domain.naming import MOST_OF_A_SCHEDULE, check_name
from app.domain.retry import RetryPolicy, delay_s, may_retry
from app.domain.schedules import (
    LAUNCHES,
    Earlier,
    Go,
    PassBy,
    Replace,
    Rule,
    RunState,
    Schedule,
    ScheduleState,
    Wait,
    begins_at,
    check,
    deadline,
    due,
    key_of,
    note,
    on_overlap,
    times,
)
from app.domain.zones import zone_named
from app.errors import Conflict, DatabaseUnavailable, GivewayError, NotFound
from app.logs import masked
from app.services.ending import note_end
from app.services.launching import Launching, checked_template
from app.services.refusals import check_keepable
from app.storage.database import Database
from app.storage.job_store import JobStore
from app.storage.schedule_store import PlannedRun, Run, ScheduleStore, Taken

log = logging.getLogger(__name__)

MOST_AT_ONCE = 2
"""Launches under way at a time, of all control workers together: sources may take long to load."""

_LEASE_S = 60.0
_REASON_LENGTH = 500
_LOADING_S = 10.0
_ONCE = RetryPolicy(max_attempts=1)
"""Of a run that a person asked for: the fault is told at once."""


@dataclass(frozen=True, slots=True)
class Next:
    """A nominal time to come: in UTC, as the wall of its zone shows it, and what the clocks do."""

    at: datetime
    local: datetime
    note: str | None


@dataclass(frozen=True, slots=True)
class Launched:
    """What became of a run that was taken. `job` is there where it was launched."""

    schedule: str
    nominal_at: datetime
    state: RunState
    job: Job | None = None
    reason: str | None = None


class Scheduling:
    """The use case behind `giveway schedules` and the tick that launches."""

    def __init__(
        self,
        database: Database,
        launching: Launching,
        observer: Observer,
        jitter: Callable[[], float],
        lease_s: float = _LEASE_S,
    ) -> None:
        self._database = database
        self._launching = launching
        self._observer = observer
        self._jitter = jitter
        self._lease_s = lease_s

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
            if not store.add(name, rule, template, store.now()):
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
            found = ScheduleStore(tx).find(name)
        if found is None:
            raise NotFound(f"no schedule {name!r}; see `giveway schedules list`")
        return found

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
            return ScheduleStore(tx).history(schedule.id, most)

    def set_state(self, name: str, state: ScheduleState) -> Schedule:
        """Pause it, so that its times pass by, or resume it; twice is no error."""
        self.named(name)
        with self._database.transaction() as tx:
            store = ScheduleStore(tx)
            store.set_state(name, state, store.now())
        return self.named(name)

    def remove(self, name: str) -> None:
        """It fires no more, and its history is gone; its jobs stay."""
        self.named(name)
        with self._database.transaction() as tx:
            ScheduleStore(tx).remove(name)

    def run(self, name: str) -> Launched:
        """Launch it now, with now for a nominal time. The overlap policy holds here too."""
        schedule = self.named(name)
        with self._database.transaction() as tx:
            store = ScheduleStore(tx)
            now = store.now().replace(microsecond=0)
            store.plan([PlannedRun(schedule.id, now, now)])
            taken = store.take_this(schedule.id, now, store.now(), self._lease_s)
        if taken is None:
            raise Conflict(f"schedule {name!r} is being run already")
        return self._launched(taken, None, _ONCE)

    def tick(self, now: datetime | None = None) -> int:
        """Plan what has become due; how many runs were written down. `now` None: now."""
        with self._database.transaction() as tx:
            store = ScheduleStore(tx)
            at = now or store.now()
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
            new = store.plan(planned)
            store.see(seen)
        return new

    def waiting(self, now: datetime | None = None) -> int:
        """Runs whose launch could begin now."""
        with self._database.transaction() as tx:
            store = ScheduleStore(tx)
            return store.waiting(now or store.now())

    def launch(self, now: datetime | None = None) -> Launched | None:
        """Take one due run and launch it; None: there is none, or enough are under way.

        Slow: it loads the source. Whoever takes over from a launcher that crashed makes the same
        job, since its key comes from the schedule and the nominal time.
        """
        with self._database.transaction() as tx:
            store = ScheduleStore(tx)
            taken = store.take(now or store.now(), self._lease_s, MOST_AT_ONCE)
        if taken is None:
            return None
        try:
            return self._launched(taken, now)
        except NotFound:
            return None  # The schedule was removed meanwhile, and its run with it.

    def _launched(
        self, taken: Taken, now: datetime | None, tries: RetryPolicy = LAUNCHES
    ) -> Launched:
        with self._kept(taken):
            schedule, passed = self._cleared(taken, now)
            if passed is not None:
                return passed
            key = key_of(schedule.name, schedule.rule, taken.nominal_at)
            try:
                job = self._made_before(key) or self._submitted(schedule, taken, key, now)
            except DatabaseUnavailable:
                raise  # The lease lapses, and the run is taken up again.
            except Exception as error:
                if not isinstance(error, GivewayError):
                    log.exception("schedule %s: the launch of %s failed", schedule.name, key)
                return self._failed(schedule, taken, now, error, tries)
            return self._settled(schedule, taken, now, job)

    def _cleared(self, taken: Taken, now: datetime | None) -> tuple[Schedule, Launched | None]:
        """The schedule, and what became of the run where earlier ones are in its way."""
        ended: list[int] = []
        with self._database.transaction() as tx:
            store = ScheduleStore(tx)
            schedule = store.get(taken.schedule_id)
            if schedule is None:
                raise NotFound("the schedule was removed while a run of it was launched")
            earlier = store.earlier(schedule.id, taken.nominal_at)
            passed: Launched | None = None
            match on_overlap(schedule.rule.overlap, earlier):
                case Go():
                    pass
                case Wait():
                    reason = "waits for an earlier run"
                    store.again(taken, now or store.now(), 0.0, reason)
                    passed = _outcome(schedule, taken, RunState.PLANNED, reason)
                case PassBy(reason):
                    store.skipped(taken, reason)
                    passed = _outcome(schedule, taken, RunState.SKIPPED, reason)
                case Replace(replaced):
                    ended = self._replace(tx, schedule, replaced)
        for job_id in ended:
            self._observer.saw(JobSteered(job_id, JobState.CANCELLED, "overlap"))
        if passed is not None and passed.state is RunState.SKIPPED:
            self._observer.saw(RunSkipped(schedule.name, taken.nominal_at, "overlap"))
        return schedule, passed

    @staticmethod
    def _replace(tx: Any, schedule: Schedule, earlier: Sequence[Earlier]) -> list[int]:
        reason = "overlap: a later run took its place"
        unlaunched = [one.nominal_at for one in earlier if one.job_id is None]
        ScheduleStore(tx).overtaken(schedule.id, unlaunched, reason)
        jobs = [one.job_id for one in earlier if one.job_id is not None]
        ended = JobStore(tx).cancel(jobs, f"a later run of schedule {schedule.name} took its place")
        note_end(tx, ended)
        return ended

    def _made_before(self, key: str) -> Job | None:
        """The job that an earlier attempt made whole; what it left half loaded is removed.

        The source may read otherwise now: the job that is there is the run's job all the same.
        """
        with self._database.transaction() as tx:
            job = JobStore(tx).find_key(key)
            if job is not None and job.state is JobState.LOADING:
                JobStore(tx).forget_loading(job.id)
                return None
            return job

    def _submitted(self, schedule: Schedule, taken: Taken, key: str, now: datetime | None) -> Job:
        template = checked_template(schedule.template)
        with self._database.transaction() as tx:
            at = now or ScheduleStore(tx).now()
        until = deadline(schedule.rule, max(at, taken.nominal_at))
        if until is not None:
            template = template.model_copy(update={"deadline": until.isoformat()})
        return self._launching.launch(template, key).job

    def _settled(
        self, schedule: Schedule, taken: Taken, now: datetime | None, job: Job
    ) -> Launched:
        with self._database.transaction() as tx:
            store = ScheduleStore(tx)
            if job.state is JobState.LOADING and may_retry(taken.attempt, LAUNCHES):
                reason = "an earlier attempt is loading its job"
                store.again(taken, now or store.now(), _LOADING_S, reason)
                return _outcome(schedule, taken, RunState.PLANNED, reason)
            store.launched(taken, job.id)
        self._observer.saw(RunLaunched(schedule.name, taken.nominal_at, job.id))
        return Launched(schedule.name, taken.nominal_at, RunState.LAUNCHED, job)

    def _failed(
        self,
        schedule: Schedule,
        taken: Taken,
        now: datetime | None,
        error: Exception,
        tries: RetryPolicy,
    ) -> Launched:
        known = isinstance(error, GivewayError)
        reason = masked(str(error) if known else type(error).__name__)[:_REASON_LENGTH]
        with self._database.transaction() as tx:
            store = ScheduleStore(tx)
            if may_retry(taken.attempt, tries):
                after_s = delay_s(taken.attempt, tries, self._jitter())
                store.again(taken, now or store.now(), after_s, reason)
                return _outcome(schedule, taken, RunState.PLANNED, reason)
            store.failed(taken, reason)
        self._observer.saw(RunFailed(schedule.name, taken.nominal_at, type(error).__name__))
        return _outcome(schedule, taken, RunState.FAILED, reason)

    @contextmanager
    def _kept(self, taken: Taken) -> Iterator[None]:
        """Extend the lease for as long as the block runs: a source may take long to load."""
        over = threading.Event()

        def keep() -> None:
            while not over.wait(self._lease_s / 4):
                try:
                    with self._database.transaction() as tx:
                        store = ScheduleStore(tx)
                        store.extend(taken, store.now(), self._lease_s)
                except GivewayError as error:
                    log.warning("the lease of a launch was not extended: %s", error)

        keeper = threading.Thread(target=keep, name="giveway-launch", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            over.set()
            keeper.join()


def _runs(schedule: Schedule, nominals: Sequence[datetime]) -> list[PlannedRun]:
    return [
        PlannedRun(schedule.id, at, begins_at(schedule.name, schedule.rule, at)) for at in nominals
    ]


def _outcome(schedule: Schedule, taken: Taken, state: RunState, reason: str) -> Launched:
    return Launched(schedule.name, taken.nominal_at, state, reason=reason)
