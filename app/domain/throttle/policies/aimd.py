"""Additive raise, multiplicative cut on refusals, as batch gateways do: blind to slow servers.

Source: Netflix concurrency-limits, `AIMDLimit` (its drop signal is a refused or timed-out call).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from app.domain.throttle.policies.base import Case, Proposal, options_of
from app.domain.throttle.pressure import people_pressure
from app.domain.throttle.values import Reason


@dataclass(frozen=True, slots=True)
class Aimd:
    name: str = "aimd"
    options: Mapping[str, float] = field(
        default_factory=lambda: {"backoff": 0.5, "increase": 1.0, "used_share": 0.5}
    )

    def propose(self, case: Case) -> Proposal:
        options = options_of(self, case.settings)
        limit = case.state.memory.get("limit", float(case.bounds.floor))
        if case.reading.refused > 0:
            limit, reason = limit * options["backoff"], Reason.OVERLOAD
        elif case.reading.batch_in_flight < options["used_share"] * limit:
            reason = Reason.LIMIT_UNUSED
        else:
            limit, reason = limit + options["increase"], Reason.GROWING
        limit = float(min(max(limit, case.bounds.floor), case.bounds.ceiling))
        state = replace(case.state, memory={**case.state.memory, "limit": limit})
        pressure = people_pressure(case.reading, case.settings)
        return Proposal(limit, pressure, reason, state, {"refused": float(case.reading.refused)})


POLICY = Aimd()
