"""Ringing: as many doorbells as there are free places, and never more."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from app.domain.sharing import Candidate, shared, uneven
from app.services.claiming import room_for
from app.services.doorbell import Doorbell
from app.services.pools import Pool, Pools, current
from app.services.pools.now import PoolState
from app.services.rates import with_budget_left
from app.storage.database import Database
from app.storage.limit_store import LimitStore, Occupancy
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
            pool = current(tx, pool, row)
            occupancy = LimitStore(tx).occupancy(pool.name)
            places = PoolState(pool, row, occupancy).batch_places
            if places <= 0:
                return []
            candidates = candidates_for(tx, with_budget_left(tx, pool), occupancy, places)
        return [(job.job_id, job.kind) for job in shared(places, candidates)]


def candidates_for(
    tx: Connection, pool: Pool, occupancy: Occupancy, places: int
) -> list[Candidate]:
    """Who could use `places` now: none whose endpoints have no room, so that no ring is in vain."""
    store = TurnStore(tx)
    candidates = []
    for one in store.candidates(pool.name, places):
        room = room_for(one, pool, occupancy)
        if room is None or room > 0:
            candidates.append(one if room is None else replace(one, ready=min(one.ready, room)))
    if uneven(candidates):
        used = store.used(pool.name)
        candidates = [replace(one, used_s=used.get(one.job_id)) for one in candidates]
    return candidates
