"""Gradient of batch round trips: shrink when calls get slower than they used to be.

Source: Netflix concurrency-limits, `Gradient2Limit` (tolerance 1.5, smoothing 0.2, queue 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from app.domain.throttle.policies.base import Case, Proposal, options_of
from app.domain.throttle.pressure import people_pressure, smooth
from app.domain.throttle.values import Reason

OPTIONS: Mapping[str, float] = {
    "tolerance": 1.5,
    "smoothing": 0.2,
    "queue": 4.0,
    "long_weight": 0.0033,  # an average over about 600 ticks, the original's long window
    "used_share": 0.5,
}


@dataclass(frozen=True, slots=True)
class Gradient:
    name: str = "gradient"
    options: Mapping[str, float] = field(default_factory=lambda: OPTIONS)

    def propose(self, case: Case) -> Proposal:
        options, memory = options_of(self, case.settings), case.state.memory
        pressure = people_pressure(case.reading, case.settings)
        limit = memory.get("limit", float(case.bounds.floor))
        short_ms = case.reading.batch_round_trip_ms
        if short_ms is None or short_ms <= 0:
            state = replace(case.state, memory={**memory, "limit": limit})
            return Proposal(limit, pressure, Reason.HOLDING, state)
        long_ms = smooth(short_ms, memory.get("long_ms"), options["long_weight"])
        if long_ms / short_ms > 2:  # the original's way out of a long slow time
            long_ms *= 0.95
        used = case.reading.batch_in_flight >= options["used_share"] * limit
        gradient = max(0.5, min(1.0, options["tolerance"] * long_ms / short_ms))
        if used:
            wanted = limit * gradient + options["queue"]
            limit = limit * (1 - options["smoothing"]) + wanted * options["smoothing"]
        limit = float(min(max(limit, case.bounds.floor), case.bounds.ceiling))
        reason = Reason.LIMIT_UNUSED if not used else Reason.GROWING
        return Proposal(
            limit,
            pressure,
            Reason.OVERLOAD if used and gradient < 1 else reason,
            replace(case.state, memory={**memory, "limit": limit, "long_ms": long_ms}),
            {"gradient": gradient, "long_ms": long_ms, "short_ms": short_ms},
        )


POLICY = Gradient()
