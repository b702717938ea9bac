"""Nobody is there: how far batch may grow past what people would bear, up to the throughput knee.

Past the knee more requests in flight bring no more work, only longer waits for whoever comes next.
The extra places count only while no interactive request is in flight at all (`decide.limit_now`),
and they do not touch the remembered capacity.
"""

from __future__ import annotations

from dataclasses import replace

from app.domain.throttle.readings import Reading
from app.domain.throttle.values import State

QUIET_AFTER_S = 60.0
"""So long nobody must have been there."""
SETTLE_S = 15.0
"""From the start of a trial: places fill, and the window of the throughput moves on."""
TRIAL_S = 40.0
"""A whole trial; throughput is averaged over what comes after the settling."""
STEP = 1.25
"""Each trial takes so many times the places of the one before."""
WORTH = 0.15
"""A trial is a success if work grew by at least this share of the growth in places."""


def somebody(reading: Reading) -> bool:
    """Whether any interactive request is there, or was in the window."""
    return bool(reading.interactive_in_flight or reading.arrivals_per_s or reading.samples)


def next_quiet(state: State, reading: Reading, limit: float, dt_s: float, *, sound: bool) -> State:
    """The state with its `quiet_limit` moved on by one reading.

    `limit` is what holds beside people; `sound` says that the endpoint is not in trouble.
    """
    if somebody(reading) or (not sound and state.quiet_limit is None):
        kept = {k: v for k, v in state.memory.items() if not k.startswith("quiet_")}
        return replace(state, quiet_limit=None, memory=kept)
    memory = dict(state.memory)
    if not sound:
        # Too far: back to what was well before, and no further trials; the trouble has to drain.
        back = min(state.quiet_limit or limit, max(limit, memory.get("quiet_base", limit)))
        return replace(state, quiet_limit=back, memory={**memory, "quiet_knee": 1.0})
    memory["quiet_s"] = memory.get("quiet_s", 0.0) + dt_s
    used = reading.batch_in_flight >= 0.85 * state.limit
    if memory["quiet_s"] < QUIET_AFTER_S or reading.batch_per_s is None or not used:
        # A limit nobody reaches has proved nothing; whatever was granted before stays.
        return replace(state, memory=memory)
    if memory.get("quiet_knee"):
        return replace(state, memory=memory)
    tried = state.quiet_limit or limit
    trial_s = memory.get("quiet_trial_s", 0.0) + dt_s
    memory["quiet_trial_s"] = trial_s
    if trial_s > SETTLE_S:
        memory["quiet_sum"] = memory.get("quiet_sum", 0.0) + reading.batch_per_s * dt_s
    if trial_s < TRIAL_S:
        return replace(state, quiet_limit=tried, memory=memory)
    rate = memory.pop("quiet_sum", 0.0) / (trial_s - SETTLE_S)
    memory["quiet_trial_s"] = 0.0
    base, before = memory.get("quiet_base", 0.0), memory.get("quiet_rate", 0.0)
    if base and rate < before * (1 + WORTH * (tried / base - 1)):
        # The knee: back to the last number of places that was worth it, and stay.
        return replace(state, quiet_limit=base, memory={**memory, "quiet_knee": 1.0})
    memory |= {"quiet_base": tried, "quiet_rate": rate}
    return replace(state, quiet_limit=tried * STEP, memory=memory)
