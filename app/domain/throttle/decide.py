"""The guard around every law: what may be trusted, and what a limit may be, whatever a policy says.

Held here by construction: floor ≤ limit ≤ ceiling of the pool's bounds; no reading, an old or an
impossible one, or a clock that jumped means the floor; an operator's word comes first.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta

from app.domain.throttle.deadline import granted, held_for_deadlines
from app.domain.throttle.feedforward import (
    decayed_peak,
    memory_limit,
    next_level,
    next_weight,
    people_weight,
    surge,
)
from app.domain.throttle.kv import next_kv
from app.domain.throttle.policies import named
from app.domain.throttle.policies.base import Case
from app.domain.throttle.readings import Reading
from app.domain.throttle.values import Bounds, Decision, PolicySettings, Reason, State

SLACK_S = 1.0
"""Clocks of two machines may differ by so much without anybody having to fall to the floor."""


def decide(
    state: State,
    reading: Reading | None,
    policy: PolicySettings,
    bounds: Bounds,
    now: datetime,
    *,
    override: int | None = None,
    deadline_places: int | None = None,
) -> Decision:
    """The limit of the pool from `now` on. Pure: same arguments, same decision.

    `override` is an operator's limit (the caller checks its expiry); `deadline_places` is how many
    batch requests the jobs with a deadline need in flight to make it, of which a quarter of the
    capacity is granted at most, and while people miss their target none (see `deadline`).
    UnknownName: there is no policy of that name.
    """
    law = named(policy.name)
    if policy.edition > 1:
        state = state.within(bounds)
    doubt = distrust(state, reading, policy, now)
    if doubt is not None or reading is None:
        return _at_floor(state, doubt or "", policy, bounds, now, override=override)
    peak = decayed_peak(
        state.interactive_peak,
        state.decided_at,
        max(reading.interactive_in_flight, reading.interactive_recent_peak),
        now,
    )
    level = next_level(
        state.interactive_level, state.decided_at, float(reading.interactive_in_flight), now
    )
    weight = next_weight(state.weight, reading)
    kv = next_kv(state.kv, reading, policy.gauges_stale_s)
    seen = replace(state, interactive_peak=peak, interactive_level=level, weight=weight, kv=kv)
    case = Case(seen, reading, policy, bounds, now)
    proposal = law.propose(case)
    own = proposal.state
    if not proposal.feeds_forward:
        own = replace(own, capacity=None, quiet_limit=None, slow_start=True)
    kept = replace(
        own,
        decided_at=now,
        valid_until=now + timedelta(seconds=policy.valid_for_s),
        interactive_peak=peak,
        interactive_level=level,
        weight=weight,
        kv=kv if proposal.feeds_forward else None,
        override=override,
    )
    wanted = granted(deadline_places, own.capacity, proposal.limit, bounds)
    if policy.edition > 1:
        kept = held_for_deadlines(kept, wanted, reading, policy, bounds, now)
    else:
        kept = replace(kept, deadline_floor=wanted)
    limit, reason = bounds.clamp(proposal.limit), proposal.reason
    room = bounds.clamp(memory_limit(kept, peak, reading.interactive_in_flight))
    if room < limit:
        limit, reason = room, Reason.MEMORY
    if kept.deadline_floor is not None and kept.deadline_floor > limit:
        limit, reason = bounds.clamp(kept.deadline_floor), Reason.DEADLINE_FLOOR
    if override is not None:
        limit, reason = bounds.clamp(override), Reason.OVERRIDE
    pressure = proposal.pressure if math.isfinite(proposal.pressure) else 0.0
    kept = replace(kept, limit=limit, reason=reason)
    return Decision(limit, pressure, reason, kept, proposal.figures)


def limit_now(
    state: State,
    interactive_in_flight: int,
    bounds: Bounds,
    now: datetime,
) -> int:
    """The limit at this very claim: the decision in force, less the people who came since.

    Cheap enough for every claim. A decision whose time is over (`State.valid_until`), or that lies
    in the future, gives the floor.
    """
    if state.valid_until is None or state.decided_at is None:
        return bounds.floor
    if not state.decided_at - timedelta(seconds=SLACK_S) <= now <= state.valid_until:
        return bounds.floor
    if state.override is not None:
        return bounds.clamp(state.override)
    if state.reason is Reason.STALE:
        return bounds.floor
    state = state.within(bounds)
    wanted = float(state.limit)
    peak = decayed_peak(state.interactive_peak, state.decided_at, interactive_in_flight, now)
    if state.capacity is not None:
        coming = surge(interactive_in_flight, state.interactive_level)
        wanted = state.capacity - people_weight(peak + coming, state.weight)
    if state.quiet_limit is not None and not interactive_in_flight:
        wanted = max(wanted, state.quiet_limit)
    wanted = min(wanted, memory_limit(state, peak, interactive_in_flight))
    held = state.deadline_floor or 0
    if not state.deadline_first:
        held = min(held, bounds.total - interactive_in_flight)
    return bounds.clamp(max(wanted, held))


def distrust(
    state: State, reading: Reading | None, policy: PolicySettings, now: datetime
) -> str | None:
    """Why nothing may be concluded from this reading at this time; None: it may be trusted."""
    if reading is None:
        return "no reading"
    if not reading.sound:
        return "a reading with impossible numbers"
    age_s = (now - reading.computed_at).total_seconds()
    if age_s > policy.reading_stale_s:
        return f"a reading {age_s:.0f} s old"
    if age_s < -SLACK_S:
        return f"a reading from {-age_s:.0f} s in the future"
    if state.decided_at is not None:
        gap_s = (now - state.decided_at).total_seconds()
        if gap_s < 0:
            return f"the clock went back by {-gap_s:.0f} s"
        if gap_s > policy.clock_jump_s:
            return f"{gap_s:.0f} s since the decision before"
    return None


def _at_floor(
    state: State,
    doubt: str,
    policy: PolicySettings,
    bounds: Bounds,
    now: datetime,
    *,
    override: int | None,
) -> Decision:
    """The floor. The capacity is remembered, but tried again from half of it on."""
    capacity = state.capacity
    if capacity is not None and state.reason is not Reason.STALE:
        capacity = max(float(bounds.floor), capacity / 2)
    limit = bounds.floor if override is None else bounds.clamp(override)
    reason = Reason.STALE if override is None else Reason.OVERRIDE
    kept = replace(
        state,
        limit=limit,
        reason=reason,
        decided_at=now,
        valid_until=now + timedelta(seconds=policy.valid_for_s),
        capacity=capacity,
        slow_start=True,
        cut_at=None,
        green_ticks=0,
        override=override,
        deadline_floor=None,
        quiet_limit=None,
    )
    return Decision(limit, 0.0, reason, kept, {"doubt": doubt})
