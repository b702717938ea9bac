"""How many endpoints a pool should have: out when work waits, in when there is none.

`wanted` counts the endpoints that come and go; those that the settings declare are there besides.
One step at a time, and each only after a cool-down: what a step does shows in the load only once
the new endpoint serves.

    out   the backlog an endpoint, the oldest wait, or people late with every place taken:
          past its bound for `hold_s`, and `out_cooldown_s` after the last step out
    in    nothing waits, people are on target, fewer than `idle_share` of the places are in use, and
          those that stay would be no fuller than `full_share`: all of it without a break for
          `in_cooldown_s`, and as long after the last step either way
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any


class Reason(StrEnum):
    """Why as many are wanted."""

    BACKLOG = "backlog"
    OLDEST_WAIT = "oldest_wait"
    PEOPLE = "people_over_target"
    IDLE = "idle"
    BOUNDS = "bounds"
    STEADY = "steady"
    HOLDING = "holding"
    """A bound is passed, but not for long enough yet."""
    COOLING = "cooling"
    """A bound is passed, but the last step was a moment ago."""
    STARTING = "starting"
    """A bound is passed, but an endpoint that was asked for does not serve yet."""


@dataclass(frozen=True, slots=True)
class Rules:
    """When to step. `start_timeout_s`: how long an endpoint that was asked for is waited for."""

    minimum: int = 1
    maximum: int = 4
    backlog_per_endpoint: float = 64.0
    oldest_wait_s: float = 30.0
    idle_share: float = 0.3
    hold_s: float = 10.0
    out_cooldown_s: float = 15.0
    in_cooldown_s: float = 60.0
    start_timeout_s: float = 300.0
    full_share: float = 0.8


@dataclass(frozen=True, slots=True)
class Load:
    """A pool as it is now.

    `backlog`: requests that wait, of both classes; `oldest_wait_s` of them. `in_flight` of `places`
    are taken, on `endpoints` that serve, of which an added one has `places_each`. `pressure` of
    people, 1.0 = on target; None: nobody asked. `missing`: endpoints that are wanted and do not
    serve yet.
    """

    endpoints: int
    backlog: float
    oldest_wait_s: float
    in_flight: int
    places: int
    places_each: int
    pressure: float | None = None
    missing: int = 0

    @property
    def utilisation(self) -> float:
        """The share of places that are taken; 1 where there are none."""
        return self.in_flight / self.places if self.places else 1.0


@dataclass(frozen=True, slots=True)
class State:
    """What one tick leaves to the next. `high_since` and `idle_since`: without a break."""

    wanted: int
    high_since: datetime | None = None
    idle_since: datetime | None = None
    out_at: datetime | None = None
    in_at: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {k: v.isoformat() if isinstance(v, datetime) else v for k, v in asdict(self).items()}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> State:
        """The inverse of `to_json`."""
        times = ("high_since", "idle_since", "out_at", "in_at")
        read = {name: raw.get(name) and datetime.fromisoformat(raw[name]) for name in times}
        return cls(int(raw["wanted"]), **read)


@dataclass(frozen=True, slots=True)
class Scale:
    """How many are wanted, why, and the state for the next tick."""

    wanted: int
    reason: Reason
    state: State


def scale(state: State, load: Load, rules: Rules, now: datetime) -> Scale:
    """What is wanted from now on: at most one more or one fewer than before, within the bounds."""
    bounded = min(max(state.wanted, rules.minimum), rules.maximum)
    if bounded != state.wanted:
        state = replace(state, wanted=bounded)
        return Scale(bounded, Reason.BOUNDS, state)
    high, idle = too_much(load, rules), is_idle(load, rules)
    state = replace(
        state,
        high_since=(state.high_since or now) if high else None,
        idle_since=(state.idle_since or now) if idle else None,
    )
    if high is not None and state.wanted < rules.maximum:
        why_not = _not_out_yet(state, load, rules, now)
        if why_not is not None:
            return Scale(state.wanted, why_not, state)
        return _stepped(replace(state, wanted=state.wanted + 1, out_at=now), high)
    if idle and state.wanted > rules.minimum and _may_go_in(state, rules, now):
        return _stepped(replace(state, wanted=state.wanted - 1, in_at=now), Reason.IDLE)
    return Scale(state.wanted, high or (Reason.IDLE if idle else Reason.STEADY), state)


def too_much(load: Load, rules: Rules) -> Reason | None:
    """Which bound the load passes; None: none."""
    if load.backlog > rules.backlog_per_endpoint * load.endpoints:
        return Reason.BACKLOG
    if load.oldest_wait_s > rules.oldest_wait_s:
        return Reason.OLDEST_WAIT
    late = load.pressure is not None and load.pressure > 1.0
    return Reason.PEOPLE if late and load.in_flight >= load.places else None


def is_idle(load: Load, rules: Rules) -> bool:
    """Whether one endpoint fewer would do."""
    late = load.pressure is not None and load.pressure > 1.0
    waiting = load.backlog > 0 or load.oldest_wait_s > rules.oldest_wait_s
    if waiting or late or load.utilisation >= rules.idle_share:
        return False
    return load.in_flight <= rules.full_share * max(0, load.places - load.places_each)


def _not_out_yet(state: State, load: Load, rules: Rules, now: datetime) -> Reason | None:
    assert state.high_since is not None
    asked = _since(state.out_at or state.high_since, now)
    if load.missing > 0 and asked < timedelta(seconds=rules.start_timeout_s):
        return Reason.STARTING
    if _since(state.out_at, now) < timedelta(seconds=rules.out_cooldown_s):
        return Reason.COOLING
    if now - state.high_since < timedelta(seconds=rules.hold_s):
        return Reason.HOLDING
    return None


def _may_go_in(state: State, rules: Rules, now: datetime) -> bool:
    wait = timedelta(seconds=rules.in_cooldown_s)
    return all(_since(at, now) >= wait for at in (state.idle_since, state.out_at, state.in_at))


def _since(at: datetime | None, now: datetime) -> timedelta:
    return timedelta.max if at is None else now - at


def _stepped(state: State, reason: Reason) -> Scale:
    """Whatever led to this step has to hold anew for the next one."""
    state = replace(state, high_since=None, idle_since=None)
    return Scale(state.wanted, reason, state)


_MARK = ".scaled."


def scaled_name(pool: str, which: str) -> str:
    """What an endpoint that was started for `pool` is called; `which` tells it from the others."""
    return f"{pool}{_MARK}{which}"


def is_scaled(endpoint: str, pool: str) -> bool:
    """Whether it was started for `pool`, and is counted in what is wanted."""
    return endpoint.startswith(f"{pool}{_MARK}")
