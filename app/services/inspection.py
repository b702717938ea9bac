"""Inspection: what people ask to see. Reads only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app import clock
from app.domain.chunks import Chunk
from app.domain.deadlines import Outlook, outlook
from app.domain.jobs import CLAIMABLE, Job, JobState, Progress
from app.domain.routing import HEALTHY
from app.domain.throttle.kv import Kv
from app.domain.throttle.readings import Reading
from app.domain.throttle.values import Reason
from app.domain.waiting import Waiting
from app.errors import NotFound
from app.services import made
from app.services.claiming import places_for
from app.services.pools import Pools, current
from app.services.pools.now import PoolState
from app.services.rates import with_budget_left
from app.services.waits import reasons
from app.storage.chunk_store import ChunkStore
from app.storage.database import Database
from app.storage.job_store import JobStore
from app.storage.limit_store import LimitStore, Override
from app.storage.progress_store import ProgressStore
from app.storage.request_store import RequestStore
from app.storage.result_store import ResultStore
from app.storage.turn_store import TurnStore
from app.storage.vector_store import VectorStore
from app.storage.webhook_store import WebhookStore

_MOST_OPEN = 500
"""So many jobs that may be claimed are looked at, the newest."""


@dataclass(frozen=True, slots=True)
class JobView:
    """A job with its progress, and why its pool's limit is what it is."""

    job: Job
    progress: Progress
    limit: int
    limit_reason: str
    failures: dict[str, int]
    why: Waiting | None = None
    """Why nothing of it is worked on; None: something is, or the job is over."""
    outlook: Outlook | None = None
    """When it is done, beside its deadline; None: it has none, or nothing tells yet."""

    @property
    def waits(self) -> str | None:
        """Why, in words."""
        return None if self.why is None else str(self.why)


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool as it stands now. `limit` is the one a claim would meet at this moment."""

    name: str
    policy: str
    total: int
    reserve: int
    batch_min: int
    batch_max: int
    limit: int
    reason: str
    pressure: float
    target_p95_ms: float
    batch_in_flight: int
    interactive_in_flight: int
    interactive_waiting: int
    computed_at: datetime | None
    valid_until: datetime | None
    override: Override | None
    tuned: Mapping[str, Any]
    """What an operator changed at run time, over what the settings say. Empty: nothing."""
    reading: Reading
    kv: Kv | None = None
    """What the decision in force knows of the endpoints' KV memory; None: nothing."""
    in_service: bool = True
    """Whether some endpoint of it gets work now."""


class Inspection:
    """The use case behind `jobs`, `status` and `throttle show`."""

    def __init__(self, database: Database, pools: Pools) -> None:
        self._database = database
        self._pools = pools

    def job(self, reference: str) -> JobView:
        """The job with this key or id. NotFound: there is none."""
        with self._database.transaction() as tx:
            job = JobStore(tx).find(reference)
            if job is None:
                raise NotFound(f"no job with key or id {reference!r}; see `giveway jobs list`")
            progress = ProgressStore(tx).progress([job.id])[job.id]
            failures = ResultStore(tx).failure_codes(job.id) if progress.failed else {}
            why = reasons(tx, self._pools, [job]).get(job.id)
            due = TurnStore(tx).due_of(job.id, job.pool) if job.deadline_at else None
        seen = None if due is None else outlook(due, progress.in_flight, clock.now())
        limit, reason = self._limit_of(job.pool)
        return JobView(job, progress, limit, reason, failures, why, seen)

    def reasons(self, jobs: Sequence[Job]) -> dict[int, Waiting]:
        """By id, why nothing of a job is worked on; those over or at work are not in it."""
        with self._database.transaction() as tx:
            return reasons(tx, self._pools, jobs)

    def held_back(self, pool: str, most: int = 20) -> list[tuple[Job, Waiting]]:
        """The pool's oldest jobs that could run and do not, and why."""
        with self._database.transaction() as tx:
            jobs = JobStore(tx).claimable(pool, _MOST_OPEN)
            found = reasons(tx, self._pools, jobs)
        return [(job, found[job.id]) for job in jobs if job.id in found][:most]

    def deliveries(self, job_id: int) -> list[dict[str, Any]]:
        """What was told to the job's webhook, or is to be; oldest first."""
        with self._database.transaction() as tx:
            return WebhookStore(tx).listed(job_id)

    def jobs(self, most: int, states: tuple[JobState, ...] = ()) -> list[tuple[Job, Progress]]:
        """The newest jobs with their progress."""
        with self._database.transaction() as tx:
            jobs = JobStore(tx).listed(most, states)
            progress = ProgressStore(tx).progress([job.id for job in jobs])
        return [(job, progress[job.id]) for job in jobs]

    def chunks(self, job_id: int, most: int) -> list[Chunk]:
        """The chunks of a job, by number."""
        with self._database.transaction() as tx:
            return ChunkStore(tx).listed(job_id, most)

    def failures(self, job_id: int, most: int) -> list[dict[str, Any]]:
        """Failed items: key, code, error."""
        with self._database.transaction() as tx:
            return ResultStore(tx).failures(job_id, most)

    def pools(self) -> list[PoolView]:
        """Every pool as it stands."""
        return [self.pool(name) for name in self._pools.by_name]

    def pool(self, name: str) -> PoolView:
        """One pool as it stands."""
        pool = self._pools.named(name)
        with self._database.transaction() as tx:
            limits = LimitStore(tx)
            row = limits.read(name)
            if row is None:
                limits.ensure([pool.bounds])
                row = limits.read(name)
                assert row is not None
            pool = current(tx, pool, row)
            occupancy = limits.occupancy(name)
            reading = RequestStore(tx).reading(name, pool.policy, row.now)
        is_old = row.state.valid_until is None or row.now > row.state.valid_until
        return PoolView(
            name=name,
            policy=pool.policy.name,
            total=pool.bounds.total,
            reserve=pool.bounds.reserve,
            batch_min=pool.bounds.batch_min,
            batch_max=pool.bounds.ceiling,
            limit=PoolState(pool, row, occupancy).limit,
            reason=Reason.STALE if is_old else row.state.reason,
            pressure=row.pressure,
            target_p95_ms=pool.policy.target_p95_ms,
            batch_in_flight=occupancy.batch_total,
            interactive_in_flight=occupancy.interactive_total,
            interactive_waiting=occupancy.queued,
            computed_at=row.computed_at,
            valid_until=row.state.valid_until,
            override=row.override,
            tuned=row.tuned,
            reading=reading,
            kv=None if is_old else row.state.kv,
            in_service=any(
                pool.health.get(spec.name, HEALTHY).usable(model)
                for spec in pool.endpoints
                for model in spec.models
            ),
        )

    def unclaimed(self, name: str) -> list[Job]:
        """Jobs of the pool of which a worker could claim a chunk at this moment.

        None of those that wait for their hours, a retry's time, other jobs or an endpoint.
        """
        pool = self._pools.named(name)
        with self._database.transaction() as tx:
            limits = LimitStore(tx)
            row = limits.read(name)
            if row is None:
                return []
            occupancy = limits.occupancy(name)
            now = PoolState(current(tx, pool, row), row, occupancy)
            if now.batch_places <= 0:
                return []
            pool = with_budget_left(tx, now.pool)
            ids = {
                one.job_id
                for one in TurnStore(tx).candidates(name, 1)
                if one.max_in_flight is None or one.in_flight < one.max_in_flight
            }
            open_ones = [job for job in JobStore(tx).listed(_MOST_OPEN, CLAIMABLE) if job.id in ids]
        return [job for job in open_ones if places_for(job, pool, occupancy)]

    def decisions(self, pool: str, most: int, since_s: float | None) -> list[dict[str, Any]]:
        """The newest decisions of a pool, oldest first."""
        self._pools.named(pool)
        with self._database.transaction() as tx:
            return LimitStore(tx).history(pool, most, since_s)

    def collections(self) -> list[dict[str, Any]]:
        """Every collection: name, model, dimension, vectors."""
        with self._database.transaction() as tx:
            return VectorStore(tx).listed()

    def results(self, job_id: int) -> Iterator[dict[str, Any]]:
        """Every result of a job, streamed: key, status, code, error, tokens, output."""
        return made.results(self._database, job_id)

    def results_with_items(self, job_id: int) -> Iterator[dict[str, Any]]:
        """The same, with each item's fields as `payload`."""
        return made.results_with_items(self._database, job_id)

    def _limit_of(self, pool: str) -> tuple[int, str]:
        if pool not in self._pools.by_name:
            return 0, "pool_gone"
        view = self.pool(pool)
        return view.limit, view.reason
