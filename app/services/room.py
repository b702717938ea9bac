"""How much batch a pool may have in flight at this moment."""

from __future__ import annotations

from app.domain.reserves import primary_places, with_reserve
from app.domain.throttle.decide import limit_now
from app.services.pools import Pool
from app.storage.limit_store import LimitRow


def batch_limit(pool: Pool, row: LimitRow, people: int) -> int:
    """The limit in force; while primaries are away, the reserve is kept among what is left."""
    limit = limit_now(row.state, people, pool.bounds, row.now)
    return with_reserve(limit, *primary_places(pool.endpoints, pool.health), pool.bounds)
