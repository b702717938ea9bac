"""Whether a chunk in work gives its place back before its next micro-batch."""

from __future__ import annotations

from sqlalchemy import Connection

from app.domain.chunks import Lease
from app.domain.jobs import Job, JobState
from app.domain.routing import HEALTHY
from app.services.budgets import paused_by_budget
from app.services.claiming import claimable
from app.services.holding import held_back
from app.services.pools import Pools, current
from app.services.pools.now import PoolState
from app.storage.job_store import JobStore
from app.storage.limit_store import LimitStore


def must_yield(tx: Connection, pools: Pools, job: Job, lease: Lease) -> str | None:
    """Why the chunk goes back, in one word; None: it goes on.

    The newest leases past the limit give way, by rank; those of a stopped job do, and those at an
    endpoint that is to be left alone.
    """
    now = JobStore(tx).get(job.id)
    if now is None or not claimable(now):
        return "no_job" if now is None else now.state
    pool, limits = pools.named(job.pool), LimitStore(tx)
    row = limits.read(pool.name)
    if row is None:
        return "no_limit_row"
    held = held_back(tx, now, row.now)
    if held is not None:
        return held.code
    if paused_by_budget(tx, now, has_more=True):
        return JobState.PAUSED
    occupancy = limits.occupancy(pool.name)
    pool = current(tx, pool, row)
    here = pool.health.get(lease.endpoint, HEALTHY)
    if here.cooling or here.is_dead or here.is_shut(job.model):
        return "endpoint"
    limit = PoolState(pool, row, occupancy).limit
    if occupancy.batch_total <= limit:
        return None
    return "yielded" if limits.rank(pool.name, job.id, lease.no) >= limit else None
