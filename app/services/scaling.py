"""The scaling tick: read the load of every scaled pool, decide, write what is wanted, tell hooks.

What comes of it is the business of the target: an agent starts and ends processes, KEDA pods, and a
hook whatever its owner likes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.domain.autoscale import Load, Rules, Scale, State, is_scaled, scale
from app.domain.events import Observer, ScaledIn, ScaledOut, ScaleFailed
from app.domain.routing import PRIMARY
from app.services.hooks import Told, run_hook
from app.services.pools import Pools
from app.services.pools.now import pool_now
from app.services.waiting import requests_in
from app.storage.database import Database
from app.storage.gauge_store import Backlog, EndpointGauges, GaugeStore, PoolGauges
from app.storage.scaler_store import Scaler, ScalerStore

log = logging.getLogger(__name__)

_EARLY = 0.5
"""A tick sooner than this share of its period after the last one is a second beat's."""
_SLACK_S = 5.0


@dataclass(frozen=True, slots=True)
class Target:
    """How a pool is scaled. `hook`: the command to run with {pool}, {wanted} and {current}."""

    pool: str
    rules: Rules
    max_concurrency: int
    waits_for_start: bool
    """Whether its endpoints are registered as they come, so that one that is missing is known."""
    hook: tuple[str, ...] = ()
    hook_timeout_s: float = 30.0


class Scaling:
    """The use case. One at a time for all pools, by an advisory lock; doubled ticks do nothing."""

    def __init__(
        self,
        database: Database,
        pools: Pools,
        targets: Sequence[Target],
        micro_batch_items: int,
        tick_s: float,
        observer: Observer,
        run: Callable[[Sequence[str], float], Told] = run_hook,
    ) -> None:
        self._database = database
        self._pools = pools
        self._targets = {target.pool: target for target in targets}
        self._micro_batch_items = micro_batch_items
        self._tick_s = tick_s
        self._observer = observer
        self._run = run

    def tick(self) -> dict[str, Scale]:
        """What is wanted of every scaled pool; empty where another tick has just decided."""
        if not self._targets:
            return {}
        with self._database.transaction() as tx:
            store = ScalerStore(tx)
            now = store.alone()
            if now is None:
                return {}
            before = store.all()
            if self._is_early(before, now):
                return {}
            loads = self._loads(GaugeStore(tx), before)
            decided = {
                pool: scale(_state(before.get(pool), rules), load, rules, now)
                for pool, load in loads.items()
                for rules in (self._targets[pool].rules,)
            }
            due = [p for p, one in decided.items() if self._is_due(before.get(p), p, one, now)]
            store.write([self._scaler(before.get(p), p, s, now, due) for p, s in decided.items()])
        for pool, one in decided.items():
            self._note_step(before.get(pool), pool, one)
        for pool in due:
            told = before[pool].told if pool in before else None
            current = loads[pool].endpoints if told is None else told
            self._tell(self._targets[pool], decided[pool].wanted, current)
        return decided

    def _is_early(self, before: Mapping[str, Scaler], now: datetime) -> bool:
        stamps = [s.updated_at for p, s in before.items() if p in self._targets and s.updated_at]
        if not stamps:
            return False
        return timedelta(0) <= now - max(stamps) < timedelta(seconds=_EARLY * self._tick_s)

    def _loads(self, gauges: GaugeStore, before: Mapping[str, Scaler]) -> dict[str, Load]:
        pools, endpoints, backlog = gauges.pools(), gauges.endpoints(), gauges.backlog()
        return {
            pool: self._load(
                pools[pool],
                [one for one in endpoints if one.pool == pool],
                backlog.get(pool, []),
                before[pool].wanted if pool in before else self._targets[pool].rules.minimum,
            )
            for pool in self._targets
            if pool in pools
        }

    def _load(
        self,
        now: PoolGauges,
        endpoints: Sequence[EndpointGauges],
        backlog: Sequence[Backlog],
        wanted: int,
    ) -> Load:
        target = self._targets[now.pool]
        serving = [one for one in endpoints if one.role == PRIMARY and not one.draining]
        scaled = sum(is_scaled(one.name, now.pool) for one in serving)
        bounds = pool_now(self._pools.named(now.pool), now, endpoints).bounds
        waiting = requests_in(backlog, self._micro_batch_items) - now.batch + now.queued
        return Load(
            endpoints=len(serving),
            backlog=max(0, waiting),
            oldest_wait_s=now.oldest_wait_s,
            in_flight=now.in_flight,
            places=bounds.total,
            places_each=target.max_concurrency,
            pressure=now.pressure,
            missing=max(0, wanted - scaled) if target.waits_for_start else 0,
        )

    def _is_due(self, before: Scaler | None, pool: str, one: Scale, now: datetime) -> bool:
        """Whether the hook has to be run, and nobody is running it."""
        if not self._targets[pool].hook or (before is not None and before.told == one.wanted):
            return False
        until = before.telling_until if before else None
        return until is None or until <= now

    def _scaler(
        self, before: Scaler | None, pool: str, one: Scale, now: datetime, due: Sequence[str]
    ) -> Scaler:
        until = before.telling_until if before else None
        if pool in due:
            # A hook that fails, or whose worker is killed, is run again after this.
            until = now + timedelta(seconds=self._targets[pool].hook_timeout_s + _SLACK_S)
        told = before.told if before else None
        return Scaler(pool, one.wanted, one.state.to_json(), told, until)

    def _note_step(self, before: Scaler | None, pool: str, one: Scale) -> None:
        was = one.wanted if before is None else before.wanted
        if one.wanted > was:
            self._observer.saw(ScaledOut(pool, one.wanted, was, one.reason))
        elif one.wanted < was:
            self._observer.saw(ScaledIn(pool, one.wanted, was, one.reason))

    def _tell(self, target: Target, wanted: int, current: int) -> None:
        values = {"{pool}": target.pool, "{wanted}": str(wanted), "{current}": str(current)}
        told = self._run([_filled(word, values) for word in target.hook], target.hook_timeout_s)
        if told.code is not None:
            log.warning("scaling hook of pool %s: %s %s", target.pool, told.code, told.said)
            self._observer.saw(ScaleFailed(target.pool, wanted, told.code, told.status))
            return
        with self._database.transaction() as tx:
            ScalerStore(tx).has_told(target.pool, wanted)


def _state(before: Scaler | None, rules: Rules) -> State:
    return State(rules.minimum) if before is None else State.from_json(before.state)


def _filled(word: str, values: Mapping[str, str]) -> str:
    for mark, value in values.items():
        word = word.replace(mark, value)
    return word
