"""The pressure rule: the larger of rate and latency pressure, smoothed, set between max and min.

Kept because it is easy to reason about. Its faults are in docs/explanation/throttle.md: the rate is
load and not pain, an idle P95 is never zero, and after each dip it has learnt nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from app.domain.throttle.policies.base import Case, Proposal, options_of
from app.domain.throttle.pressure import latency_pressure, rate_pressure, smooth
from app.domain.throttle.values import Reason


@dataclass(frozen=True, slots=True)
class Pressure:
    name: str = "pressure"
    options: Mapping[str, float] = field(default_factory=lambda: {"max": 0.0})
    """`max`: the limit without any pressure; 0 means the pool's own."""

    def propose(self, case: Case) -> Proposal:
        reading, settings, bounds = case.reading, case.settings, case.bounds
        rate = rate_pressure(reading.arrivals_per_s, settings.rps_threshold)
        latency = latency_pressure(reading.p95_ms, settings.target_p95_ms)
        smoothed = smooth(min(1.0, max(rate, latency)), case.state.smoothed, settings.alpha)
        # round() of Python goes to the even neighbour; the rule means the nearest, halves up.
        most = options_of(self, settings)["max"] or bounds.ceiling
        limit = int(most - (most - bounds.floor) * smoothed + 0.5)
        return Proposal(
            limit,
            max(rate, latency),
            Reason.OVERLOAD if smoothed >= 0.995 else Reason.FOLLOWING,
            replace(case.state, smoothed=smoothed),
            {"rate_pressure": rate, "latency_pressure": latency, "smoothed": smoothed},
        )


POLICY = Pressure()
