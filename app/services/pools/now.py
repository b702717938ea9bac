"""How many requests a pool may have in flight at this moment, and how many it has.

batch at most      what a decision gave (the floor once that is out of date), less where the
                   reserve would be gone with the primaries that are away
people and batch   the total, of which the reserve is thus never batch's: people at primaries
                   (backup and degraded endpoints have places of their own), batch anywhere
at an endpoint     its max_concurrency; one while it is on trial, none while it is away
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.domain.failover import Scene
from app.domain.reserves import places_of, primary_places, with_reserve
from app.domain.routing import PRIMARY
from app.domain.throttle.decide import limit_now
from app.domain.throttle.values import Bounds, State
from app.services.pools.pool import Pool, tuned, with_more
from app.storage.gauge_store import EndpointGauges, PoolGauges
from app.storage.limit_store import LimitRow, Occupancy
from app.storage.report_store import Targets


@dataclass(frozen=True, slots=True)
class PoolState:
    """A pool that `current` returned, under its limit row, with who is in flight."""

    pool: Pool
    row: LimitRow
    occupancy: Occupancy

    @property
    def people(self) -> int:
        """People's requests, in flight and waiting."""
        return self.occupancy.interactive_total + self.occupancy.queued

    @property
    def limit(self) -> int:
        """The most batch requests that may be in flight."""
        pool = self.pool
        places, away = primary_places(pool.endpoints, pool.health)
        return _limit(self.row.state, self.people, pool.bounds, self.row.now, places, away)

    @property
    def in_flight(self) -> int:
        """Both classes, wherever they are."""
        return self.occupancy.batch_total + self.occupancy.interactive_total

    @property
    def is_full(self) -> bool:
        """Whether batch finds the total used up."""
        return self.in_flight >= self.pool.bounds.total

    @property
    def batch_places(self) -> int:
        """How many more batch requests may start; 0 or less: none."""
        return min(self.limit - self.occupancy.batch_total, self.pool.bounds.total - self.in_flight)


def _limit(state: State, people: int, bounds: Bounds, now: datetime, places: int, away: int) -> int:
    """The limit in force; while primaries are away, the reserve is kept among what is left."""
    return with_reserve(limit_now(state, people, bounds, now), places, away, bounds)


def at_endpoints(pool: Pool, occupancy: Occupancy) -> dict[str, int]:
    """Requests in flight by endpoint, both classes."""
    return {spec.name: occupancy.at(spec.name) for spec in pool.endpoints}


def scene(pool: Pool, flying: Mapping[str, int]) -> Scene:
    """What people's requests find: `flying` counts both classes by endpoint, or by another name
    what is at none. Nobody waits in it yet."""
    elsewhere = {spec.name for spec in pool.endpoints if spec.role != PRIMARY}
    taken = sum(count for name, count in flying.items() if name not in elsewhere)
    return Scene(pool.endpoints, pool.health, flying, pool.bounds.total - taken, {})


@dataclass(frozen=True, slots=True)
class PoolNow:
    """`bounds` with what endpoints added at run time give; `limit` is what a claim would meet."""

    bounds: Bounds
    limit: int
    targets: Targets


def pool_now(pool: Pool, now: PoolGauges, endpoints: Sequence[EndpointGauges]) -> PoolNow:
    """How the pool stands by its gauges. `endpoints` may be those of all pools."""
    pool = tuned(pool, now.tuned)
    primaries = [one for one in endpoints if one.pool == pool.name and one.role == PRIMARY]
    more = sum(one.max_concurrency for one in primaries if one.added and not one.draining)
    bounds = with_more(pool.bounds, more)
    places = sum(places_of(one.max_concurrency, one.health) for one in primaries)
    away = sum(one.max_concurrency for one in primaries) - places
    people, policy = now.interactive + now.queued, pool.policy
    return PoolNow(
        bounds,
        _limit(State.from_json(now.state), people, bounds, now.now, places, away),
        Targets(
            pool.name,
            policy.target_p95_ms,
            policy.first_token_target_ms,
            policy.per_token_target_ms,
            policy.short_output_tokens,
        ),
    )
