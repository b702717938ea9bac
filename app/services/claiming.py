"""Claiming: look, lock the pool, count with a fresh snapshot, then lease the chunk."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from sqlalchemy import Connection

from app.domain.chunks import Lease
from app.domain.jobs import CLAIMABLE, NO_MODEL, Job
from app.domain.routing import (
    DEGRADED,
    Choice,
    EndpointSpec,
    Takes,
    batch_roles,
    chosen,
    room,
)
from app.domain.sharing import Candidate
from app.services.pools import Pool, standing_as, tuned
from app.services.pools.now import PoolState, at_endpoints
from app.services.rates import at_rest, budgets_spent
from app.storage.lease_store import LeaseStore
from app.storage.limit_store import Occupancy
from app.storage.pool_store import PoolSeen, PoolStore
from app.storage.turn_store import TurnStore


@dataclass(frozen=True, slots=True)
class Claimed:
    """A lease, its job, the endpoint whose place it holds, and the model it is asked for."""

    lease: Lease
    job: Job
    choice: Choice

    @property
    def endpoint(self) -> EndpointSpec:
        """Whose place it holds."""
        return self.choice.spec

    @property
    def takes(self) -> Takes:
        """What one request of it may hold."""
        return self.endpoint.takes(self.choice.model)

    @property
    def stand_in(self) -> str | None:
        """The model that answers in place of the job's own; None: none does."""
        is_other = self.choice.role == DEGRADED and self.choice.model != self.job.model
        return self.choice.model if is_other else None


@dataclass(frozen=True, slots=True)
class NotNow:
    """Nothing was leased; `why` in one word."""

    why: str


def claim(tx: Connection, job: Job, pool: Pool, worker: str, lease_s: float) -> Claimed | NotNow:
    """Lease a chunk of `job` if the limit, the pool's total and an endpoint have room.

    It is looked first whether one could be had, and only then is the limit row locked: people wait
    for that lock. Counts are made again after it, so that any number of claimers together never
    pass the limit.
    """
    store = PoolStore(tx)
    seen = store.look(pool.name, job.id)
    if seen is None:
        return NotNow("no_limit_row")
    resting = budgets_spent(tx, as_seen(pool, seen))
    found = _places(tx, job, pool, seen, resting)
    if not isinstance(found, NotNow):
        found = _places(tx, job, pool, store.locked(pool.name, job.id), resting)
    if isinstance(found, NotNow):
        return found
    leases = LeaseStore(tx)
    for choice in found:
        # What failed at one endpoint goes to another while there is one.
        fresh = len(found) > 1
        lease = leases.claim(job.id, worker, choice.spec.name, lease_s, fresh=fresh)
        if lease is not None:
            TurnStore(tx).served(job.id)
            return Claimed(lease, job, choice)
    return NotNow("nothing_ready")


def as_seen(pool: Pool, seen: PoolSeen) -> Pool:
    """`pool` as it was seen: what is tuned, endpoints added at run time, and everyone's health."""
    return standing_as(tuned(pool, seen.row.tuned), seen.standing)


def _places(
    tx: Connection, job: Job, pool: Pool, seen: PoolSeen, resting: Set[str]
) -> list[Choice] | NotNow:
    """Where a chunk could be leased by what was seen of the pool; NotNow: nowhere."""
    pool = as_seen(pool, seen)
    now = PoolState(pool, seen.row, seen.occupancy)
    if seen.occupancy.batch_total >= now.limit:
        return NotNow("limit")
    if now.is_full:
        return NotNow("total")
    cap = job.max_in_flight
    if cap is not None and TurnStore(tx).in_flight(job.id, pool.name) >= cap:
        return NotNow("job_cap")
    places = places_for(job, at_rest(pool, resting), seen.occupancy)
    if not places:
        return NotNow("endpoints")
    return places if seen.is_ready else NotNow("nothing_ready")


def places_for(job: Job | Candidate, pool: Pool, occupancy: Occupancy) -> list[Choice]:
    """The endpoint that should have the next chunk, and the one that should if it may not; none:
    no endpoint that serves the job has room and is in service."""
    if job.model == NO_MODEL:
        return [_nowhere(pool)]
    best: list[Choice] = []
    roles = batch_roles(job.failover, job.model, pool.endpoints, pool.health)
    in_flight = at_endpoints(pool, occupancy)
    for _ in range(2):
        left = [spec for spec in pool.endpoints if all(spec is not one.spec for one in best)]
        choice = chosen(job.model, left, pool.health, in_flight, roles=roles, trickle=True)
        if choice is not None:
            best.append(choice)
    return best


def room_for(job: Job | Candidate, pool: Pool, occupancy: Occupancy) -> int | None:
    """How many more chunks of it the endpoints that serve it take now; None: it needs none."""
    if job.model == NO_MODEL:
        return None
    (role,) = batch_roles(job.failover, job.model, pool.endpoints, pool.health)
    return room(job.model, pool.endpoints, pool.health, at_endpoints(pool, occupancy), role)


def _nowhere(pool: Pool) -> Choice:
    """The place of a job that makes no call: it counts in the pool, and at no endpoint."""
    return Choice(EndpointSpec("none", pool.name, "none", "", (), 1), NO_MODEL)


def claimable(job: Job | None) -> bool:
    """Whether chunks of the job may be leased."""
    return job is not None and job.state in CLAIMABLE
