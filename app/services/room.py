"""How much batch a pool may have in flight at this moment."""

from __future__ import annotations

from app.domain.routing import HEALTHY, PRIMARY, EndpointHealth, EndpointSpec
from app.domain.throttle.decide import limit_now
from app.domain.throttle.values import Bounds
from app.services.pools import Pool
from app.storage.limit_store import LimitRow


def batch_limit(pool: Pool, row: LimitRow, people: int) -> int:
    """The limit in force; while primaries are away, the reserve is kept among what is left."""
    limit = limit_now(row.state, people, pool.bounds, row.now)
    primaries = [spec for spec in pool.endpoints if spec.role == PRIMARY]
    places = [_places(spec, pool.health.get(spec.name, HEALTHY)) for spec in primaries]
    away = sum(spec.max_concurrency for spec in primaries) - sum(places)
    return with_reserve(limit, sum(places), away, pool.bounds)


def with_reserve(limit: int, places: int, away: int, bounds: Bounds) -> int:
    """`limit`, or less where `away` places of primaries are out of service and so few are left that
    people would find none free.

    Where none is left, batch may be at backups, whose places are their own.
    """
    if not away or not 0 < places < bounds.total:
        return limit
    return min(limit, max(bounds.floor, places - bounds.reserve))


def _places(spec: EndpointSpec, health: EndpointHealth) -> int:
    """Those that get work; one of those that have yet to show that they are back."""
    if health.cooling or health.draining or health.is_dead:
        return 0
    return 1 if health.on_trial else spec.max_concurrency
