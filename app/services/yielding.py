"""Whether a chunk in work gives its place back before its next micro-batch."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection

from app.domain.chunks import Lease
from app.domain.jobs import Job, JobState
from app.domain.routing import HEALTHY
from app.services.budgets import paused_by_budget
from app.services.claiming import claimable
from app.services.holding import held_back
from app.services.pools import Pools, standing_as, tuned
from app.services.pools.now import PoolState
from app.storage.endpoint_store import EndpointStore
from app.storage.job_store import JobStore
from app.storage.limit_store import LimitStore


def must_yield(tx: Connection, pools: Pools, job: Job, lease: Lease) -> Callable[[], str | None]:
    """Ask; the answer may be had later: why the chunk goes back, in one word; None: it goes on.

    The newest leases past the limit give way, by rank; those of a stopped job do, and those at an
    endpoint that is to be left alone.
    """
    pool, limits = pools.named(job.pool), LimitStore(tx)
    asked_job = JobStore(tx).get_later(job.id)
    asked_row = limits.read_later(pool.name)
    asked_occupancy = limits.occupancy_later(pool.name)
    asked_standing = EndpointStore(tx).standing_later(pool.name)
    asked_rank = limits.rank_later(pool.name, job.id, lease.no)

    def answer() -> str | None:
        now = asked_job()
        if now is None or not claimable(now):
            return "no_job" if now is None else now.state
        row = asked_row()
        if row is None:
            return "no_limit_row"
        held = held_back(tx, now, row.now)
        if held is not None:
            return held.code
        if paused_by_budget(tx, now, has_more=True):
            return JobState.PAUSED
        there = standing_as(tuned(pool, row.tuned), asked_standing())
        here = there.health.get(lease.endpoint, HEALTHY)
        if here.cooling or here.is_dead or here.is_shut(job.model):
            return "endpoint"
        occupancy = asked_occupancy()
        limit = PoolState(there, row, occupancy).limit
        if occupancy.batch_total <= limit:
            return None
        return "yielded" if asked_rank() >= limit else None

    return answer
