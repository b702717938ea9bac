"""Moving a lease's place to another endpoint of its pool, for a step that calls another model."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from sqlalchemy import Connection

from app.domain.routing import Choice, answers_for, batch_roles, chosen
from app.errors import LeaseLost
from app.services.claiming import Claimed, as_seen
from app.services.pools import Pool
from app.services.pools.now import at_endpoints
from app.services.rates import at_rest, budgets_spent
from app.storage.lease_store import LeaseStore
from app.storage.pool_store import PoolSeen, PoolStore


def stays(claimed: Claimed, model: str) -> Claimed | None:
    """The same lease where its endpoint answers for `model`; None: it has to move."""
    spec = claimed.endpoint
    answers = answers_for(spec, model, spec.role)
    return None if answers is None else replace(claimed, choice=Choice(spec, answers))


def moved(tx: Connection, claimed: Claimed, pool: Pool, model: str) -> Claimed | None:
    """The lease at an endpoint that answers for `model`; None: none of them has room now.

    It is looked first, and then the pool's limit row is locked and the places are counted after it,
    as in a claim, so that no endpoint is ever given more than it takes. The pool's own count stays
    as it is: the lease gives up one place and takes another. Raises LeaseLost.
    """
    store = PoolStore(tx)
    seen = store.look(pool.name, claimed.job.id)
    if seen is None:
        return None
    resting = budgets_spent(tx, as_seen(pool, seen))
    choice = _chosen(claimed, pool, seen, resting, model)
    if choice is not None:
        seen = store.locked(pool.name, claimed.job.id)
        choice = _chosen(claimed, pool, seen, resting, model)
    if choice is None:
        return None
    if not LeaseStore(tx).move(claimed.lease, choice.spec.name):
        raise LeaseLost
    return replace(claimed, lease=replace(claimed.lease, endpoint=choice.spec.name), choice=choice)


def _chosen(
    claimed: Claimed, pool: Pool, seen: PoolSeen, resting: Set[str], model: str
) -> Choice | None:
    pool = at_rest(as_seen(pool, seen), resting)
    return chosen(
        model,
        pool.endpoints,
        pool.health,
        at_endpoints(pool, seen.occupancy),
        roles=batch_roles(claimed.job.failover, model, pool.endpoints, pool.health),
        trickle=True,
    )
