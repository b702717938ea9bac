"""The feed-forward part: what the people in flight now take away, before anybody is late."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime

from app.domain.throttle.readings import Reading
from app.domain.throttle.values import Bounds, PolicySettings, State

PEAK_KEPT_PER_S = 0.70
"""A peak of interactive requests is remembered, falling to 70 % each second."""
LEVEL_KEPT_PER_S = 0.85
"""The smoothed number in flight, against which a surge is measured, keeps 85 % each second."""
CHANCE = 1.0
"""Places kept for chance, times the root of the people in flight (Poisson's spread)."""
WHOLE_PLACE = 1 / 3
"""A person who loads the engine by at least this share of a batch request takes a whole place."""
LEAST_WEIGHT = 0.1
WEIGHT_ALPHA = 0.2
"""How far one reading moves the weight."""
SURGE_SIGMAS = 3.0
SURGE_LEAD = 2.0
"""People past the usual spread are a surge, which is taken to rise by so many times its size."""


def people_weight(peak: float, weight: float = 1.0) -> float:
    """Places of C that `peak` interactive requests take, with room for chance."""
    return weight * (peak + CHANCE * math.sqrt(peak)) if peak > 0 else 0.0


def next_weight(weight: float, reading: Reading) -> float:
    """What a person weighs against a batch request, by the load of each, one reading later.

    The load of a place is the tokens that go through it in a second. A chat gives its tokens one by
    one; an embedding call hands over a hundred at once, and the next call follows at once: such a
    place loads the engine by many times a person's. To keep one free for each person would leave
    most of a small pool unused, and hand it all to batch whenever a few people leave.
    """
    people, batch = reading.people_tokens_per_place_s, reading.batch_tokens_per_place_s
    if not people or not batch:
        return weight
    seen = min(1.0, max(LEAST_WEIGHT, people / batch / WHOLE_PLACE))
    return weight + WEIGHT_ALPHA * (seen - weight)


def surge(in_flight: float, level: float) -> float:
    """People who are on their way, judged by how far `in_flight` is above its usual `level`."""
    return SURGE_LEAD * max(0.0, in_flight - level - SURGE_SIGMAS * math.sqrt(level + 1.0))


def memory_limit(state: State, peak: float, in_flight: float) -> float:
    """Batch requests that KV memory bears beside the people in flight, with room for those who left
    lately and may be back (`peak` is I_pk now), for chance and for a surge. Infinite: unknown."""
    if state.kv is None:
        return math.inf
    coming = CHANCE * math.sqrt(peak) + surge(in_flight, state.interactive_level)
    return state.kv.limit(in_flight, peak + coming)


def decayed_peak(peak: float, peak_at: datetime | None, in_flight: float, now: datetime) -> float:
    """I_pk now: what is in flight, or what is left of the peak seen at `peak_at`."""
    if peak_at is None or not peak > 0:
        return max(0.0, in_flight)
    passed_s = max(0.0, (now - peak_at).total_seconds())
    return max(0.0, in_flight, peak * math.pow(PEAK_KEPT_PER_S, passed_s))


def next_level(level: float, level_at: datetime | None, in_flight: float, now: datetime) -> float:
    """The smoothed number in flight, one reading later."""
    if level_at is None:
        return in_flight
    kept = math.pow(LEVEL_KEPT_PER_S, max(0.0, (now - level_at).total_seconds()))
    return kept * level + (1 - kept) * in_flight


def blaming(policy: PolicySettings, state: State, bounds: Bounds) -> PolicySettings:
    """The settings to take a reading with: `people_capacity` as far as `state` knows better, and
    the last cut, which misses from before it have had already.

    The people whom capacity C bears alone solve w·(n + r·√n) = C − floor: with so many in flight
    batch is at its floor anyway. Who came into such a crowd is not late because of batch, and must
    not lower C. With C too high this hides nothing; with C too low it hides everybody, which is why
    a policy must not let C stay under people who are there and well.
    """
    policy = replace(policy, answered_at=state.cut_at)
    state = state.within(bounds)
    if state.capacity is None:
        return policy
    spare = max(0.0, state.capacity - bounds.floor) / state.weight
    root = (math.sqrt(CHANCE * CHANCE + 4 * spare) - CHANCE) / 2
    people = max(1, math.ceil(root * root))
    if policy.people_capacity is not None:
        people = min(people, policy.people_capacity)
    return replace(policy, people_capacity=people)
