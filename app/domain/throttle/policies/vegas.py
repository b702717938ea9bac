"""TCP Vegas on batch round trips: the queue is what the round trip is longer than the shortest.

Source: Netflix concurrency-limits, `VegasLimit` (alpha 3·log10, beta 6·log10 of the limit).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from app.domain.throttle.policies.base import Case, Proposal, options_of
from app.domain.throttle.pressure import people_pressure
from app.domain.throttle.values import Reason


@dataclass(frozen=True, slots=True)
class Vegas:
    name: str = "vegas"
    options: Mapping[str, float] = field(
        default_factory=lambda: {"alpha": 3.0, "beta": 6.0, "used_share": 0.5}
    )

    def propose(self, case: Case) -> Proposal:
        options, memory = options_of(self, case.settings), case.state.memory
        pressure = people_pressure(case.reading, case.settings)
        limit = memory.get("limit", float(case.bounds.floor))
        trip_ms = case.reading.batch_round_trip_ms
        if trip_ms is None or trip_ms <= 0:
            state = replace(case.state, memory={**memory, "limit": limit})
            return Proposal(limit, pressure, Reason.HOLDING, state)
        least_ms = min(memory.get("least_ms", trip_ms), trip_ms)
        queue = math.ceil(limit * (1 - least_ms / trip_ms))
        step = max(1.0, math.log10(limit))
        if case.reading.refused > 0 or queue > options["beta"] * step:
            limit, reason = limit - step, Reason.OVERLOAD
        elif case.reading.batch_in_flight < options["used_share"] * limit:
            reason = Reason.LIMIT_UNUSED
        elif queue < options["alpha"] * step:
            limit, reason = limit + step, Reason.GROWING
        else:
            reason = Reason.HOLDING
        limit = float(min(max(limit, case.bounds.floor), case.bounds.ceiling))
        return Proposal(
            limit,
            pressure,
            reason,
            replace(case.state, memory={**memory, "limit": limit, "least_ms": least_ms}),
            {"queue": float(queue), "least_ms": least_ms, "trip_ms": trip_ms},
        )


POLICY = Vegas()
