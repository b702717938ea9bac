"""Claiming: lock the pool, count with a fresh snapshot, then lease the chunk."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from app.domain.chunks import Lease
from app.domain.jobs import CLAIMABLE, Job
from app.domain.routing import EndpointSpec, chosen
from app.domain.throttle.decide import limit_now
from app.services.pools import Pool, tuned
from app.storage.chunk_store import ChunkStore
from app.storage.endpoint_store import EndpointStore
from app.storage.job_store import JobStore
from app.storage.limit_store import LimitStore, Occupancy


@dataclass(frozen=True, slots=True)
class Claimed:
    """A lease, its job, and the endpoint whose place it holds."""

    lease: Lease
    job: Job
    endpoint: EndpointSpec


@dataclass(frozen=True, slots=True)
class NotNow:
    """Nothing was leased; `why` in one word."""

    why: str


def claim(tx: Connection, job: Job, pool: Pool, worker: str, lease_s: float) -> Claimed | NotNow:
    """Lease a chunk of `job` if the limit, the pool's total and an endpoint have room.

    The limit row is locked in its own statement; counts are made after it, so that any number of
    claimers together never pass the limit.
    """
    limits = LimitStore(tx)
    row = limits.lock(pool.name)
    if row is None:
        return NotNow("no_limit_row")
    pool = tuned(pool, row.tuned)
    occupancy = limits.occupancy(pool.name)
    people = occupancy.interactive_total + occupancy.queued
    if occupancy.batch_total >= limit_now(row.state, people, pool.bounds, row.now):
        return NotNow("limit")
    if occupancy.batch_total + occupancy.interactive_total >= pool.bounds.total:
        return NotNow("total")
    cap = job.max_in_flight
    if cap is not None and JobStore(tx).in_flight(job.id, pool.name) >= cap:
        return NotNow("job_cap")
    endpoint = chosen(
        job.model,
        pool.endpoints,
        EndpointStore(tx).health(pool.name),
        at_endpoints(pool, occupancy),
    )
    if endpoint is None:
        return NotNow("endpoints")
    lease = ChunkStore(tx).claim(job.id, worker, endpoint.name, lease_s)
    if lease is None:
        return NotNow("nothing_ready")
    JobStore(tx).started(job.id)
    return Claimed(lease, job, endpoint)


def at_endpoints(pool: Pool, occupancy: Occupancy) -> dict[str, int]:
    """Requests in flight by endpoint, both classes."""
    return {spec.name: occupancy.at(spec.name) for spec in pool.endpoints}


def claimable(job: Job | None) -> bool:
    """Whether chunks of the job may be leased."""
    return job is not None and job.state in CLAIMABLE
