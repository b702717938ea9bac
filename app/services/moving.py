"""Moving a lease's place to another endpoint of its pool, for a step that calls another model."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from app.domain.routing import Choice, answers_for, batch_roles, chosen
from app.errors import LeaseLost
from app.services.claiming import Claimed
from app.services.pools import Pool, current
from app.services.pools.now import at_endpoints
from app.services.rates import with_budget_left
from app.storage.lease_store import LeaseStore
from app.storage.limit_store import LimitStore


def stays(claimed: Claimed, model: str) -> Claimed | None:
    """The same lease where its endpoint answers for `model`; None: it has to move."""
    spec = claimed.endpoint
    answers = answers_for(spec, model, spec.role)
    return None if answers is None else replace(claimed, choice=Choice(spec, answers))


def moved(tx: Connection, claimed: Claimed, pool: Pool, model: str) -> Claimed | None:
    """The lease at an endpoint that answers for `model`; None: none of them has room now.

    The pool's limit row is locked and the places are counted after it, as in a claim, so that no
    endpoint is ever given more than it takes. The pool's own count stays as it is: the lease gives
    up one place and takes another. Raises LeaseLost.
    """
    limits = LimitStore(tx)
    row = limits.lock(pool.name)
    if row is None:
        return None
    pool = with_budget_left(tx, current(tx, pool, row))
    choice = chosen(
        model,
        pool.endpoints,
        pool.health,
        at_endpoints(pool, limits.occupancy(pool.name)),
        roles=batch_roles(claimed.job.failover, model, pool.endpoints, pool.health),
        trickle=True,
    )
    if choice is None:
        return None
    if not LeaseStore(tx).move(claimed.lease, choice.spec.name):
        raise LeaseLost
    return replace(claimed, lease=replace(claimed.lease, endpoint=choice.spec.name), choice=choice)
