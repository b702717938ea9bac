"""A fixed cap, as most people run batch today. Right for one load only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.domain.throttle.policies.base import Case, Proposal, options_of
from app.domain.throttle.pressure import people_pressure
from app.domain.throttle.values import Reason


@dataclass(frozen=True, slots=True)
class Static:
    name: str = "static"
    options: Mapping[str, float] = field(default_factory=lambda: {"cap": 16.0})

    def propose(self, case: Case) -> Proposal:
        cap = options_of(self, case.settings)["cap"]
        return Proposal(
            cap,
            people_pressure(case.reading, case.settings),
            Reason.FIXED,
            case.state,
            {"cap": cap},
        )


POLICY = Static()
