"""Steering: what a person does to a job or to a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.domain.events import JobSteered, Observer
from app.domain.jobs import PAUSED_BY_HAND, Command, Job, JobState, states_for
from app.errors import NotFound, StateConflict, UsageError
from app.services.budgets import check_budget
from app.services.ending import note_end
from app.services.pools import Pools, check_changes, tuned
from app.storage.after_store import AfterStore
from app.storage.chunk_store import ChunkStore
from app.storage.database import Database
from app.storage.job_store import JobStore
from app.storage.limit_store import LimitStore


class Steering:
    """The use case. A command given twice is no error; one that cannot be says why."""

    def __init__(self, database: Database, pools: Pools, observer: Observer) -> None:
        self._database = database
        self._pools = pools
        self._observer = observer

    def pause(self, reference: str) -> Job:
        """Nothing more of the job is claimed; micro-batches in flight end and are kept."""
        return self._move(reference, Command.PAUSE, JobState.PAUSED, PAUSED_BY_HAND)

    def resume(self, reference: str, budget: float | None = None) -> Job:
        """The job may be claimed again; it waits no more for jobs that will not complete.

        `budget` replaces the money after which it pauses. UsageError: it has spent that already.
        """
        with self._database.transaction() as tx:
            store = JobStore(tx)
            job = self._found(store, reference)
            self._allow(job, Command.RESUME)
            check_budget(tx, job, budget)
            if budget is not None:
                store.set_budget(job.id, budget)
        return self._move(reference, Command.RESUME, JobState.READY)

    def cancel(self, reference: str) -> Job:
        """The job ends; results so far are kept. Final."""
        return self._move(reference, Command.CANCEL, JobState.CANCELLED, "cancelled by a person")

    def retry(self, reference: str, codes: Sequence[str] | None = None) -> tuple[Job, int]:
        """Failed items, and those whose judge gave no verdict (all, or those with `codes`), are
        tried again; the job and how many."""
        with self._database.transaction() as tx:
            job = self._found(JobStore(tx), reference)
            self._allow(job, Command.RETRY)
            if job.pruned_at is not None:
                raise StateConflict(
                    f"the items of job {job.key!r} were deleted on {job.pruned_at:%Y-%m-%d} "
                    "([retention] keep_jobs_days); submit it again under another key"
                )
            again = ChunkStore(tx).reopen_failed(job.id, codes)
            if again:
                JobStore(tx).move(job.id, states_for(Command.RETRY), JobState.READY)
            job = JobStore(tx).get(job.id) or job
        return job, again

    def override(self, pool: str, limit: int, for_s: float, reason: str | None) -> int:
        """An operator's limit for `for_s` seconds; the limit as the pool's bounds allow it."""
        with self._database.transaction() as tx:
            row = LimitStore(tx).read(pool)
        bounds = tuned(self._pools.named(pool), row.tuned if row else {}).bounds
        if not bounds.floor <= limit <= bounds.ceiling:
            raise UsageError(
                f"limit {limit} is outside pool {pool!r}, which allows "
                f"{bounds.floor} to {bounds.ceiling}"
            )
        if not 0 < for_s <= 30 * 86400:
            raise UsageError("an override lasts more than 0 s and at most 30 days")
        with self._database.transaction() as tx:
            LimitStore(tx).ensure([bounds])
            LimitStore(tx).set_override(pool, limit, for_s, reason)
        return limit

    def clear_override(self, pool: str) -> bool:
        """Back to the policy; False: there was no override."""
        self._pools.named(pool)
        with self._database.transaction() as tx:
            return LimitStore(tx).clear_override(pool)

    def tune(self, pool: str, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Change settings of a pool while everything runs; all that is tuned now.

        In force from the next claim and the next tick on, in every process, until `untune`.
        Raises UnknownName and ConfigError, and then nothing is changed.
        """
        declared = self._pools.named(pool)
        check_changes(changes)
        with self._database.transaction() as tx:
            limits = LimitStore(tx)
            limits.ensure([declared.bounds])
            row = limits.lock(pool)
            merged = {**(row.tuned if row else {}), **changes}
            tuned(declared, merged)
            limits.tune(pool, merged)
        return merged

    def untune(self, pool: str) -> None:
        """Back to the declared settings."""
        self._pools.named(pool)
        with self._database.transaction() as tx:
            LimitStore(tx).tune(pool, None)

    def _move(
        self, reference: str, command: Command, to: JobState, reason: str | None = None
    ) -> Job:
        moved = False
        with self._database.transaction() as tx:
            store = JobStore(tx)
            job = self._found(store, reference)
            self._allow(job, command)
            if job.state is not to and not (command is Command.RESUME and job.state != "paused"):
                moved = store.move(job.id, states_for(command), to, reason)
                if command is Command.RESUME:
                    AfterStore(tx).forget_vain(job.id)
                if moved and to is JobState.CANCELLED:
                    note_end(tx, [job.id])
            job = store.get(job.id) or job
        if moved:
            self._observer.saw(JobSteered(job.id, to, reason))
        return job

    @staticmethod
    def _found(store: JobStore, reference: str) -> Job:
        job = store.find(reference)
        if job is None:
            raise NotFound(f"no job with key or id {reference!r}; see `giveway jobs list`")
        return job

    @staticmethod
    def _allow(job: Job, command: Command) -> None:
        if job.state not in states_for(command):
            allowed = ", ".join(sorted(states_for(command)))
            raise StateConflict(
                f"job {job.key!r} is {job.state}; {command} works on a job that is {allowed}"
            )
