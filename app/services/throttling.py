"""The tick: read the window, decide, write limit and decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import Connection, text

from app.domain.deadlines import places_needed
from app.domain.events import LimitMoved, Observer
from app.domain.throttle.decide import decide
from app.domain.throttle.feedforward import blaming
from app.domain.throttle.readings import Gauges, Reading
from app.domain.throttle.values import Decision
from app.domain.throttle.yielding import YieldSettings, victims
from app.services.pools import Pool, Pools, current
from app.storage.database import Database
from app.storage.limit_store import LimitStore
from app.storage.request_store import RequestStore
from app.storage.turn_store import TurnStore
from app.storage.yield_store import YieldStore

_EARLY = 0.5
"""A tick sooner than this share of `tick_s` after the last one is a second beat's: passed over."""
_WAITING_COUNTED = 64


class Throttling:
    """The use case. Single per pool by an advisory lock; ticks that come doubled do nothing."""

    def __init__(
        self,
        database: Database,
        pools: Pools,
        tick_s: float,
        observer: Observer,
        gauges: Callable[[Pool], Gauges | None] = lambda _: None,
    ) -> None:
        self._database = database
        self._pools = pools
        self._tick_s = tick_s
        self._observer = observer
        self._gauges = gauges
        self._seen: dict[str, Pool] = {}

    def tick_all(self) -> dict[str, Decision]:
        """Decide for every pool whose time has come."""
        decisions = {name: self.tick(name) for name in self._pools.by_name}
        return {name: decision for name, decision in decisions.items() if decision is not None}

    def tick(self, pool_name: str) -> Decision | None:
        """One decision; None where another controller has just made it, or is making it."""
        pool = self._pools.named(pool_name)
        # Before the transaction, since it may call the endpoints; which, the last tick knows.
        gauges = self._gauges(self._seen.get(pool_name, pool))
        with self._database.transaction() as tx:
            limits = LimitStore(tx)
            if not tx.execute(_SINGLE, {"pool": pool.name}).scalar_one():
                return None
            row = limits.read(pool.name)
            if row is None:
                limits.ensure([pool.bounds])
                row = limits.read(pool.name)
                assert row is not None
            pool = self._seen[pool_name] = current(tx, pool, row)
            if row.computed_at is not None:
                since_s = (row.now - row.computed_at).total_seconds()
                if 0 <= since_s < _EARLY * self._tick_s:
                    return None
            blame = blaming(pool.policy, row.state, pool.bounds)
            reading = RequestStore(tx).reading(pool.name, blame, row.now, gauges)
            ready = sum(job.ready for job in TurnStore(tx).candidates(pool.name, _WAITING_COUNTED))
            reading = replace(reading, batch_waiting=ready)
            override = None if row.override is None else row.override.value
            places = places_needed(TurnStore(tx).due(pool.name), row.now)
            decision = decide(
                row.state,
                reading,
                pool.policy,
                pool.bounds,
                row.now,
                override=override,
                deadline_places=places,
            )
            # The row is written last: from then until the commit people wait for it.
            self._take_back(tx, pool, decision, reading)
            limits.record(
                pool.name,
                row.state,
                reading,
                pool.policy,
                pool.bounds,
                decision,
                row.now,
                override,
                places,
            )
        if decision.limit != row.state.limit:
            self._observer.saw(
                LimitMoved(
                    pool.name, decision.limit, row.state.limit, decision.pressure, decision.reason
                )
            )
        return decision

    @staticmethod
    def _take_back(tx: Connection, pool: Pool, decision: Decision, reading: Reading) -> None:
        """Ask for places back where somebody waits and the calls over the limit take long."""
        over = reading.batch_in_flight - decision.limit
        if over <= 0:
            return
        store = YieldStore(tx)
        calls = store.calls(pool.name)
        asked = victims(
            calls.held,
            decision.limit,
            YieldSettings(),
            oldest_waiting_s=reading.oldest_waiting_s,
            # Calls end one after the other over about one call's time.
            drain_s=calls.drain_s * over / max(1, len(calls.held)),
            work_tokens=calls.work_tokens,
            wasted_tokens=calls.wasted_tokens,
        )
        pairs = [call.key.split("/") for call in asked]
        store.request_yield([(int(job_id), int(no)) for job_id, no in pairs])


_SINGLE = text("SELECT pg_try_advisory_xact_lock(hashtextextended('giveway.tick.' || :pool, 0))")
