"""Learning, from the calls that were answered, how large a micro-batch each endpoint carries."""

from __future__ import annotations

from app.domain.knees import Knee, knee
from app.services.pools import Pools
from app.storage.database import Database
from app.storage.knee_store import KneeStore, Place

WINDOW_S = 300.0


class Learning:
    """The use case: run by a tick. Ticks that come doubled write the same."""

    def __init__(self, database: Database, pools: Pools, window_s: float = WINDOW_S) -> None:
        self._database = database
        self._pools = pools
        self._window_s = window_s

    def tick(self) -> dict[Place, Knee]:
        """Write what the last minutes show; by endpoint and model."""
        with self._database.transaction() as tx:
            store = KneeStore(tx)
            sizes = store.sizes(list(self._pools.by_name), self._window_s)
            shown = {place: knee(calls) for place, calls in sizes.items()}
            found = {place: one for place, one in shown.items() if one is not None}
            store.write(found)
        return found
