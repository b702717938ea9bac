"""The default: remember the capacity, subtract the people.

Pain (misses, near misses, waiting ages, KV memory, refusals) moves C, the capacity of the pool for
both classes; the people's number moves the limit under it at every claim (`decide.limit_now`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from app.domain.throttle.feedforward import people_weight
from app.domain.throttle.policies.base import Case, Proposal, elapsed_s, options_of
from app.domain.throttle.pressure import people_pressure
from app.domain.throttle.readings import Gauges, Reading
from app.domain.throttle.values import Bounds, PolicySettings, Reason, State

OPTIONS: Mapping[str, float] = {
    "red_miss": 0.05,
    "amber_near": 0.05,
    "prior_samples": 20.0,
    "cooldown_s": 2.0,
    "beta": 0.85,
    "beta_severe": 0.70,
    "green_ticks": 2.0,
    "used_share": 0.85,
    "slow_start_factor": 1.25,
    "growth_least": 0.5,
    "growth_share": 0.02,
}


class Light(StrEnum):
    RED = "red"
    AMBER = "amber"
    GREEN = "green"


@dataclass(frozen=True, slots=True)
class Signal:
    """What the reading says, before any memory of capacity."""

    light: Light
    severe: bool
    miss: float
    near: float


def signal(reading: Reading, settings: PolicySettings, options: Mapping[str, float]) -> Signal:
    """Red, amber or green. With few samples the prior keeps one late request from ruling."""
    gauges = reading.gauges or Gauges()
    kv = (gauges.kv_usage or 0.0) if gauges.age_s <= settings.gauges_stale_s else 0.0
    miss = (reading.misses + 0.5) / (reading.samples + options["prior_samples"])
    near = (reading.nears + 0.5) / (reading.samples + options["prior_samples"])
    severe = reading.waiting_over_target > 0 or kv > 0.93
    rising = gauges.preemptions_rising and gauges.age_s <= settings.gauges_stale_s
    refused = reading.refused > 0
    if miss > options["red_miss"] or severe or kv > 0.90 or rising or refused:
        return Signal(Light.RED, severe, miss, near)
    if near > options["amber_near"] or kv > 0.80:
        return Signal(Light.AMBER, severe, miss, near)
    return Signal(Light.GREEN, severe, miss, near)


@dataclass(frozen=True, slots=True)
class Budget:
    name: str = "budget"
    options: Mapping[str, float] = field(default_factory=lambda: OPTIONS)

    def propose(self, case: Case) -> Proposal:
        state, reading, settings = case.state, case.reading, case.settings
        bounds, now = case.bounds, case.now
        options = options_of(self, settings)
        seen = signal(reading, settings, options)
        people = people_weight(state.interactive_peak)
        start = bounds.floor + people
        before = replace(state, capacity=start) if state.capacity is None else state
        match seen.light:
            case Light.RED:
                reason, after = _red(before, reading, seen, options, now)
            case Light.AMBER:
                reason, after = Reason.NEAR_TARGET, replace(before, green_ticks=0)
            case Light.GREEN:
                reason, after = _green(before, reading, options, bounds, elapsed_s(state, now))
        capacity = max(after.capacity or 0.0, bounds.floor)
        return Proposal(
            capacity - people,
            people_pressure(reading, settings),
            reason,
            replace(after, capacity=capacity),
            {
                "light": seen.light.value,
                "miss": seen.miss,
                "near": seen.near,
                "capacity": capacity,
                "people": people,
                "batch_in_flight": float(reading.batch_in_flight),
            },
        )


def _red(
    state: State, reading: Reading, seen: Signal, options: Mapping[str, float], now: datetime
) -> tuple[Reason, State]:
    """Cut C by batch's share of the blame, once a cooldown: a cut takes time to act."""
    cooling = (
        state.cut_at is not None
        and 0 <= (now - state.cut_at).total_seconds() < options["cooldown_s"]
    )
    if cooling:
        return Reason.COOLING, replace(state, green_ticks=0)
    batch, interactive = reading.batch_in_flight, reading.interactive_in_flight
    share = min(1.0, 2 * batch / (batch + interactive)) if batch else 0.0
    beta = options["beta_severe"] if seen.severe else options["beta"]
    # Never trust more than what is in flight now: a capacity far above it was not at work here.
    proven = batch + people_weight(state.interactive_peak) + 2
    capacity = min(state.capacity or 0.0, proven) * (1 - (1 - beta) * share)
    return Reason.OVERLOAD, replace(
        state, capacity=capacity, cut_at=now, green_ticks=0, slow_start=False
    )


def _green(
    state: State, reading: Reading, options: Mapping[str, float], bounds: Bounds, dt_s: float
) -> tuple[Reason, State]:
    """Raise C while batch uses the limit; a limit nobody reaches has proved nothing."""
    state = replace(state, green_ticks=state.green_ticks + 1)
    if reading.batch_in_flight < options["used_share"] * state.limit:
        return Reason.LIMIT_UNUSED, state
    capacity = state.capacity or 0.0
    most = bounds.ceiling + people_weight(state.interactive_peak)
    if capacity >= most:
        return Reason.HEADROOM, state
    if state.green_ticks < options["green_ticks"]:
        return Reason.HOLDING, state
    if state.slow_start:
        grown = options["slow_start_factor"] * capacity + 1
    else:
        grown = capacity + max(options["growth_least"], options["growth_share"] * capacity) * dt_s
    return Reason.GROWING, replace(state, capacity=min(grown, most))


POLICY = Budget()
