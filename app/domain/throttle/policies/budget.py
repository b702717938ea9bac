"""The default: remember the capacity, subtract the people.

C, the capacity of the pool for both classes, follows the x of people (the worst ratio of time to
target, at its 95th percentile): up while it is under its aim, gently down above it, cut when people
miss. Where people are few, timed batch calls speak for them. The people's number moves the limit
under C at every claim (`decide.limit_now`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from math import inf

from app.domain.throttle.feedforward import people_weight
from app.domain.throttle.policies.base import Case, Proposal, elapsed_s, options_of
from app.domain.throttle.pressure import people_pressure
from app.domain.throttle.quiet import next_quiet, somebody
from app.domain.throttle.readings import Gauges, Reading
from app.domain.throttle.values import Bounds, PolicySettings, Reason, State

OPTIONS: Mapping[str, float] = {
    "aim": 0.88,  # where x at P95 is held
    "gain": 0.20,  # growth of C per second, as a share, for each 1.0 that x is under the aim
    "gain_down": 0.10,
    "growth_least": 1.2,  # places per second for each 1.0 under the aim; helps pools of under 6
    "growth_least_most": 0.1,  # places per second
    "growth_most": 0.05,  # share per second, outside slow start
    "red_miss": 0.05,
    "prior_samples": 20.0,
    "cooldown_s": 2.0,
    "beta": 0.85,
    "beta_severe": 0.70,
    "drain_s": 30.0,  # how long KV memory may take to drain before it counts against C again
    "used_share": 0.85,
    "enough_samples": 20.0,
    "slow_start_factor": 1.15,
    "slow_start_below": 0.7,
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
    full: bool
    """Red for KV memory alone: nobody is late yet."""
    miss: float
    x: float | None
    """x at P95: of people, or where they are few the worse of theirs and that of batch calls.
    None: nobody was timed."""
    calm: bool = True
    """KV memory is under its warning mark."""


def signal(reading: Reading, settings: PolicySettings, options: Mapping[str, float]) -> Signal:
    """Red, amber or green. With few samples the prior keeps one late request from ruling."""
    gauges = reading.gauges or Gauges()
    fresh = gauges.age_s <= settings.gauges_stale_s
    kv = (gauges.kv_usage or 0.0) if fresh else 0.0
    miss = (reading.misses + 0.5) / (reading.samples + options["prior_samples"])
    calm = kv <= 0.80
    late = reading.waiting_over_target > 0 or miss > options["red_miss"]
    severe = reading.waiting_over_target > 0 or kv > 0.93
    x = reading.x_p95
    if reading.samples < options["enough_samples"] and reading.batch_x_p95 is not None:
        x = max(x or 0.0, reading.batch_x_p95)
    full = kv > 0.90 or (fresh and gauges.preemptions_rising)
    if late or full or reading.refused > 0:
        only_full = full and not late and reading.refused == 0
        return Signal(Light.RED, severe, only_full, miss, x, calm)
    if not calm or (x is not None and x > options["aim"]):
        return Signal(Light.AMBER, severe, False, miss, x, calm)
    return Signal(Light.GREEN, severe, False, miss, x, calm)


@dataclass(frozen=True, slots=True)
class Budget:
    name: str = "budget"
    options: Mapping[str, float] = field(default_factory=lambda: OPTIONS)

    def propose(self, case: Case) -> Proposal:
        options = options_of(self, case.settings)
        reading, bounds = case.reading, case.bounds
        seen = signal(reading, case.settings, options)
        people = people_weight(case.state.interactive_peak, case.state.weight)
        dt_s = elapsed_s(case.state, case.now)
        before = case.state
        # C is borne at once: what waits for a place is not, and proves nothing of it.
        most = float(bounds.total) if case.settings.edition > 1 else inf
        if before.capacity is None:
            before = replace(before, capacity=min(bounds.floor + people, most))
        match seen.light:
            case Light.RED if before.quiet_limit is not None and not somebody(reading):
                # The trial beyond C went too far (see `quiet`); C itself has shown nothing.
                reason, after = Reason.OVERLOAD, before
            case Light.RED:
                reason, after = _red(before, reading, seen, options, case.now)
            case Light.AMBER:
                reason, after = _amber(before, seen, options, dt_s)
            case Light.GREEN:
                reason, after = _green(before, reading, seen, options, bounds, dt_s, most)
        capacity = max(after.capacity or 0.0, float(bounds.floor))
        after = next_quiet(
            after, reading, capacity - people, dt_s, sound=seen.light is not Light.RED and seen.calm
        )
        limit = capacity - people
        if after.quiet_limit is not None and after.quiet_limit > limit and not somebody(reading):
            limit = after.quiet_limit
            reason = reason if reason is Reason.OVERLOAD else Reason.NO_TRAFFIC
        return Proposal(
            limit,
            people_pressure(reading, case.settings),
            reason,
            replace(after, capacity=capacity),
            {
                "light": seen.light.value,
                "miss": seen.miss,
                "x": seen.x,
                "capacity": capacity,
                "people": people,
                "weight": case.state.weight,
                "batch_in_flight": float(reading.batch_in_flight),
            },
            feeds_forward=True,
        )


def _red(
    state: State, reading: Reading, seen: Signal, options: Mapping[str, float], now: datetime
) -> tuple[Reason, State]:
    """Cut C by batch's share of the blame, once a cooldown: a cut takes time to act.

    Memory drains only as calls end: while batch is still over the limit of the last cut, memory
    that stays full says nothing new about C.
    """
    draining = seen.full and reading.batch_in_flight > 1.05 * state.limit
    wait_s = options["drain_s"] if draining else options["cooldown_s"]
    if state.cut_at is not None and 0 <= (now - state.cut_at).total_seconds() < wait_s:
        return Reason.COOLING, replace(state, green_ticks=0)
    batch, interactive = reading.batch_in_flight, reading.interactive_in_flight
    share = min(1.0, 2 * batch / (batch + interactive)) if batch else 0.0
    beta = options["beta_severe"] if seen.severe else options["beta"]
    # Never trust more than what is in flight now: a capacity far above it was not at work here.
    proven = batch + people_weight(state.interactive_peak, state.weight) + 2
    capacity = min(state.capacity or 0.0, proven) * (1 - (1 - beta) * share)
    return Reason.OVERLOAD, replace(
        state, capacity=capacity, cut_at=now, green_ticks=0, slow_start=False
    )


def _amber(
    state: State, seen: Signal, options: Mapping[str, float], dt_s: float
) -> tuple[Reason, State]:
    """Over the aim, but on target: lean back as far as x is over it."""
    over = max(0.0, (seen.x or 0.0) - options["aim"])
    capacity = (state.capacity or 0.0) * (1 - min(0.05, options["gain_down"] * over) * dt_s)
    return Reason.NEAR_TARGET, replace(state, capacity=capacity, green_ticks=0, slow_start=False)


def _green(
    state: State,
    reading: Reading,
    seen: Signal,
    options: Mapping[str, float],
    bounds: Bounds,
    dt_s: float,
    total: float,
) -> tuple[Reason, State]:
    """Raise C as far as x is under the aim, while batch uses the limit; to `total` at most."""
    state = replace(state, green_ticks=state.green_ticks + 1)
    if reading.batch_in_flight < options["used_share"] * state.limit:
        # A limit nobody reaches has proved nothing.
        return Reason.LIMIT_UNUSED, state
    people = people_weight(state.interactive_peak, state.weight)
    capacity, most = state.capacity or 0.0, min(bounds.ceiling + people, total)
    everybody = reading.samples + reading.not_attributable
    if everybody >= options["enough_samples"] and (
        (reading.share_over_target or 0.0) <= options["red_miss"]
    ):
        # Whoever they are, so many people are in flight and well: C is no less than they are.
        # A C under the people would leave them all out of the count, and never learn better.
        here = people_weight(reading.interactive_in_flight, state.weight)
        capacity = max(capacity, min(bounds.floor + here, total))
    if capacity >= most:
        return Reason.HEADROOM, replace(state, capacity=capacity)
    if state.reason is Reason.MEMORY:
        # The limit was memory's: C was not used either.
        return Reason.HOLDING, replace(state, capacity=capacity)
    under = options["aim"] - (seen.x or 0.0)
    evidence = min(1.0, (reading.samples + reading.batch_samples) / options["enough_samples"])
    if state.slow_start and (seen.x or 0.0) < options["slow_start_below"]:
        grown = capacity * options["slow_start_factor"] ** dt_s + 1
    else:
        share = min(options["growth_most"], options["gain"] * under)
        # A window of ten seconds tells late: a small pool must not climb by places meanwhile.
        least = min(options["growth_least_most"], options["growth_least"] * under)
        grown = capacity + max(share * capacity, least) * evidence * dt_s
    return Reason.GROWING, replace(state, capacity=min(grown, most))


POLICY = Budget()
