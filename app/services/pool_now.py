"""A pool's limit and places as they stand, from its gauges and its settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.domain.reserves import places_of, with_reserve
from app.domain.routing import PRIMARY
from app.domain.throttle.decide import limit_now
from app.domain.throttle.values import Bounds, State
from app.services.pools import Pool, tuned
from app.storage.gauge_store import EndpointGauges, PoolGauges
from app.storage.report_store import Targets


@dataclass(frozen=True, slots=True)
class PoolNow:
    """`bounds` with what endpoints added at run time give; `limit` is what a claim would meet."""

    bounds: Bounds
    limit: int
    targets: Targets


def pool_now(pool: Pool, now: PoolGauges, endpoints: Sequence[EndpointGauges]) -> PoolNow:
    """How the pool stands. `endpoints` may be those of all pools."""
    pool = tuned(pool, now.tuned)
    more = sum(
        one.max_concurrency
        for one in endpoints
        if one.pool == pool.name and one.added and one.role == PRIMARY and not one.draining
    )
    bounds = replace(
        pool.bounds, total=pool.bounds.total + more, batch_max=pool.bounds.batch_max + more
    )
    primaries = [one for one in endpoints if one.pool == pool.name and one.role == PRIMARY]
    places = sum(places_of(one.max_concurrency, one.health) for one in primaries)
    away = sum(one.max_concurrency for one in primaries) - places
    limit = limit_now(State.from_json(now.state), now.interactive + now.queued, bounds, now.now)
    policy = pool.policy
    return PoolNow(
        bounds,
        with_reserve(limit, places, away, bounds),
        Targets(
            pool.name,
            policy.target_p95_ms,
            policy.first_token_target_ms,
            policy.per_token_target_ms,
            policy.short_output_tokens,
        ),
    )
