"""Obeys a limit known beforehand. Only the simulator knows one: it has the whole run to look at.

The simulator hands its answer for each moment as the option `limit` (see `simulation.oracle`).
Without it, as in production, nothing is known and the floor is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.domain.throttle.policies.base import Case, Proposal, options_of
from app.domain.throttle.pressure import people_pressure
from app.domain.throttle.values import Reason


@dataclass(frozen=True, slots=True)
class Oracle:
    name: str = "oracle"
    options: Mapping[str, float] = field(default_factory=lambda: {"limit": 0.0})

    def propose(self, case: Case) -> Proposal:
        limit = options_of(self, case.settings)["limit"]
        pressure = people_pressure(case.reading, case.settings)
        return Proposal(limit, pressure, Reason.FIXED, case.state)


POLICY = Oracle()
