"""No throttle: every place but the reserve is batch's. For comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.domain.throttle.policies.base import Case, Proposal
from app.domain.throttle.pressure import people_pressure
from app.domain.throttle.values import Reason


@dataclass(frozen=True, slots=True)
class Unlimited:
    name: str = "unlimited"
    options: Mapping[str, float] = field(default_factory=dict)

    def propose(self, case: Case) -> Proposal:
        pressure = people_pressure(case.reading, case.settings)
        return Proposal(float(case.bounds.ceiling), pressure, Reason.FIXED, case.state)


POLICY = Unlimited()
