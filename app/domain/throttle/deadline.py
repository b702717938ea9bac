"""What a deadline may hold: places kept for chance, never those that people would miss.

A floor of batch under the law's own limit comes out of what people have for surges. So it is raised
a place at a time while they are well, held while they are near their target, and gone while they
miss it, for longer each time that it was the floor that they met.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta

from app.domain.throttle.pressure import people_pressure
from app.domain.throttle.readings import Reading
from app.domain.throttle.values import Bounds, PolicySettings, State

SHARE = 1 / 4
"""Of C: deadlines are never granted more."""
NEAR = 0.88
"""People are near their target from here on: the floor rises no further."""
STEP_S = 10.0
"""From one place more to the next: a window of people who have met it."""
LEAST_PAUSE_S = 60.0
MOST_PAUSE_S = 960.0


def granted(places: int | None, capacity: float | None, limit: float, bounds: Bounds) -> int | None:
    """Places that deadlines ask for, a quarter of the capacity at most; None: no more than the
    pool's floor. A law without a capacity has its `limit` for one."""
    if places is None or places <= bounds.floor:
        return None
    most = (limit if capacity is None else capacity) * SHARE
    return bounds.clamp(min(places, most)) if math.isfinite(most) else bounds.floor


def held_for_deadlines(
    before: State,
    wanted: int | None,
    reading: Reading,
    policy: PolicySettings,
    bounds: Bounds,
    now: datetime,
) -> State:
    """`before` with the floor that deadlines hold from `now` on, of the `wanted` places."""
    if policy.deadline_before_people:
        return replace(before, deadline_floor=wanted, deadline_first=True)
    pressure = people_pressure(reading, policy)
    floor, paused_s = before.deadline_floor, before.deadline_pause_s
    if pressure > 1.0 or reading.refused > 0:
        if floor is not None:
            paused_s = min(MOST_PAUSE_S, max(LEAST_PAUSE_S, 2 * paused_s))
        until = now + timedelta(seconds=STEP_S if floor is None else paused_s)
        return replace(
            before,
            deadline_floor=None,
            deadline_first=False,
            deadline_next_at=max(before.deadline_next_at or until, until),
            deadline_pause_s=paused_s,
        )
    if wanted is None:
        return replace(before, deadline_floor=None, deadline_first=False)
    rises = before.deadline_next_at is None or now >= before.deadline_next_at
    if pressure > NEAR or not rises:
        kept = None if floor is None else min(floor, wanted)
        return replace(before, deadline_floor=kept, deadline_first=False)
    return replace(
        before,
        deadline_floor=min(wanted, (floor or bounds.floor) + 1),
        deadline_first=False,
        deadline_next_at=now + timedelta(seconds=STEP_S),
        # People have met the last place for a step and are well.
        deadline_pause_s=paused_s if floor is None else paused_s / 2,
    )
