"""Ringing: as many doorbells as there are free places, and never more."""

from __future__ import annotations

from dataclasses import replace

from app.domain.sharing import shared, uneven
from app.services.doorbell import Doorbell
from app.services.pools import Pool, Pools, current
from app.services.pools.now import PoolState
from app.storage.database import Database
from app.storage.limit_store import LimitStore
from app.storage.turn_store import TurnStore


class Ringing:
    """The use case. Run at each tick, at submission, when a limit rises and when a chunk ends."""

    def __init__(self, database: Database, pools: Pools, doorbell: Doorbell) -> None:
        self._database = database
        self._pools = pools
        self._doorbell = doorbell

    def ring_all(self) -> int:
        """Ring for every pool; how many rings went out."""
        return sum(self.ring(name) for name in self._pools.by_name)

    def ring(self, pool_name: str) -> int:
        """Ring for the pool's free places; how many rings went out."""
        rings = self._due(self._pools.named(pool_name))
        if not rings:
            return 0
        places = len(rings) - self._doorbell.waiting()
        return self._doorbell.ring(rings[:places]) if places > 0 else 0

    def _due(self, pool: Pool) -> list[tuple[int, str]]:
        with self._database.transaction() as tx:
            row = LimitStore(tx).read(pool.name)
            if row is None:
                return []
            occupancy = LimitStore(tx).occupancy(pool.name)
            places = PoolState(current(tx, pool, row), row, occupancy).batch_places
            if places <= 0:
                return []
            store = TurnStore(tx)
            candidates = store.candidates(pool.name, places)
            if uneven(candidates):
                used = store.used(pool.name)
                candidates = [replace(one, used_s=used.get(one.job_id)) for one in candidates]
        return [(job.job_id, job.kind) for job in shared(places, candidates)]
