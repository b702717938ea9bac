"""The feed-forward part: what the people in flight now take away, before anybody is late."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from app.domain.throttle.values import Bounds, PolicySettings, State

PEAK_KEPT_PER_S = 0.85
"""A peak of interactive requests is remembered, falling to 85 % each second."""


@dataclass(frozen=True, slots=True)
class Kv:
    """KV memory of the pool's endpoints, in tokens, where it is known."""

    capacity_tokens: float
    interactive_tokens: float
    per_batch_tokens: float
    burst_tokens: float = 0.0
    """Kept free for people who have not come yet; at least a tenth of the memory is."""

    @property
    def limit(self) -> float:
        """Batch requests that fit beside the people."""
        spare = max(0.10 * self.capacity_tokens, self.burst_tokens)
        room = 0.92 * self.capacity_tokens - self.interactive_tokens - spare
        return max(0.0, room / self.per_batch_tokens) if self.per_batch_tokens > 0 else math.inf


def people_weight(peak: float) -> float:
    """Places of C that `peak` interactive requests take: 0.7 each, and room for chance (√)."""
    return 0.7 * peak + math.sqrt(peak) if peak > 0 else 0.0


def crowd_bound(state: State, bounds: Bounds, settings: PolicySettings) -> float:
    """How many people in flight take the whole capacity: with so many, batch is at its floor anyway.

    Who is late in such a crowd, or a larger one, is not late because of batch, and must not lower
    the capacity. The bound corrects itself: with C too low it hides pain, which lets C grow; with C
    too high it hides nothing. Solves 0.7·n + √n = C − floor for n; infinite while C is unknown.
    """
    measured = math.inf if settings.people_capacity is None else float(settings.people_capacity)
    if state.capacity is None:
        return measured
    root = (math.sqrt(1 + 2.8 * max(0.0, state.capacity - bounds.floor)) - 1) / 1.4
    return min(measured, max(1.0, root * root))


def decayed_peak(peak: float, peak_at: datetime | None, in_flight: float, now: datetime) -> float:
    """I_pk now: what is in flight, or what is left of the peak seen at `peak_at`."""
    if peak_at is None or not peak > 0:
        return max(0.0, in_flight)
    passed_s = max(0.0, (now - peak_at).total_seconds())
    return max(0.0, in_flight, peak * math.pow(PEAK_KEPT_PER_S, passed_s))
