"""Runs of schedules: what is planned is launched once, whoever takes it and whoever crashes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.domain.events import JobSteered, Observer, RunFailed, RunLaunched, RunSkipped
from app.domain.jobs import Job, JobState
from app.domain.retry import RetryPolicy, delay_s, may_retry
from app.domain.schedules import (
    LAUNCHES,
    Earlier,
    Go,
    PassBy,
    Replace,
    RunState,
    Schedule,
    Wait,
    deadline,
    key_of,
    on_overlap,
)
from app.errors import Conflict, DatabaseUnavailable, GivewayError, NotFound
from app.logs import masked
from app.services.ending import note_end
from app.services.launching import Launching
from app.services.schedule_named import schedule_named
from app.services.templates import checked_template
from app.storage.database import Database, database_now
from app.storage.job_store import JobStore
from app.storage.schedule_run_store import PlannedRun, ScheduleRunStore, Taken
from app.storage.schedule_store import ScheduleStore

log = logging.getLogger(__name__)

MOST_AT_ONCE = 2
"""Launches under way at a time, of all control workers together: sources may take long to load."""

_LEASE_S = 60.0
_REASON_LENGTH = 500
_LOADING_S = 10.0
_ONCE = RetryPolicy(max_attempts=1)
"""Of a run that a person asked for: the fault is told at once."""


@dataclass(frozen=True, slots=True)
class Launched:
    """What became of a run that was taken. `job` is there where it was launched."""

    schedule: str
    nominal_at: datetime
    state: RunState
    job: Job | None = None
    reason: str | None = None


class ScheduleRuns:
    """The use case behind the ticks that launch, and `giveway schedules run`."""

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

    def waiting(self, now: datetime | None = None) -> int:
        """Runs whose launch could begin now."""
        with self._database.transaction() as tx:
            return ScheduleRunStore(tx).waiting(now or database_now(tx))

    def launch(self, now: datetime | None = None) -> Launched | None:
        """Take one due run and launch it; None: there is none, or enough are under way.

        Slow: it loads the source. Whoever takes over from a launcher that crashed makes the same
        job, since its key comes from the schedule and the nominal time.
        """
        with self._database.transaction() as tx:
            at = now or database_now(tx)
            taken = ScheduleRunStore(tx).take(at, self._lease_s, MOST_AT_ONCE)
        if taken is None:
            return None
        try:
            return self._launched(taken, now)
        except NotFound:
            return None  # The schedule was removed meanwhile, and its run with it.

    def run(self, name: str) -> Launched:
        """Launch the schedule called `name` now, with now for a nominal time. Its overlap policy
        holds here too."""
        with self._database.transaction() as tx:
            schedule = schedule_named(tx, name)
            store = ScheduleRunStore(tx)
            now = database_now(tx).replace(microsecond=0)
            store.plan([PlannedRun(schedule.id, now, now)])
            taken = store.take_this(schedule.id, now, database_now(tx), self._lease_s)
        if taken is None:
            raise Conflict(f"schedule {name!r} is being run already")
        return self._launched(taken, None, _ONCE)

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
            store = ScheduleRunStore(tx)
            schedule = ScheduleStore(tx).get(taken.schedule_id)
            if schedule is None:
                raise NotFound("the schedule was removed while a run of it was launched")
            earlier = store.earlier(schedule.id, taken.nominal_at)
            passed: Launched | None = None
            match on_overlap(schedule.rule.overlap, earlier):
                case Go():
                    pass
                case Wait():
                    reason = "waits for an earlier run"
                    store.again(taken, now or database_now(tx), 0.0, reason)
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
        ScheduleRunStore(tx).overtaken(schedule.id, unlaunched, reason)
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
            at = now or database_now(tx)
        until = deadline(schedule.rule, max(at, taken.nominal_at))
        if until is not None:
            template = template.model_copy(update={"deadline": until.isoformat()})
        return self._launching.launch(template, key).job

    def _settled(
        self, schedule: Schedule, taken: Taken, now: datetime | None, job: Job
    ) -> Launched:
        with self._database.transaction() as tx:
            store = ScheduleRunStore(tx)
            if job.state is JobState.LOADING and may_retry(taken.attempt, LAUNCHES):
                reason = "an earlier attempt is loading its job"
                store.again(taken, now or database_now(tx), _LOADING_S, reason)
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
            store = ScheduleRunStore(tx)
            if may_retry(taken.attempt, tries):
                after_s = delay_s(taken.attempt, tries, self._jitter())
                store.again(taken, now or database_now(tx), after_s, reason)
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
                        ScheduleRunStore(tx).extend(taken, database_now(tx), self._lease_s)
                except GivewayError as error:
                    log.warning("the lease of a launch was not extended: %s", error)

        keeper = threading.Thread(target=keep, name="giveway-launch", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            over.set()
            keeper.join()


def _outcome(schedule: Schedule, taken: Taken, state: RunState, reason: str) -> Launched:
    return Launched(schedule.name, taken.nominal_at, state, reason=reason)
