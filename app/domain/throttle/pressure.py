"""Pressure: how far from the target, as one number. 1.0 = on target, 2.0 = twice too slow."""

from __future__ import annotations

from app.domain.throttle.readings import Reading
from app.domain.throttle.values import PolicySettings


def rate_pressure(rps: float, rps_threshold: float) -> float:
    """Arrivals per second as a share of the rate at which batch stands at its minimum."""
    return rps / rps_threshold


def latency_pressure(p95_ms: float | None, target_p95_ms: float) -> float:
    """P95 as a share of its target; no samples press nobody."""
    return 0.0 if p95_ms is None else p95_ms / target_p95_ms


def smooth(value: float, before: float | None, alpha: float) -> float:
    """Exponential smoothing, s ← α·value + (1−α)·s; without a past the value itself."""
    return value if before is None else alpha * value + (1 - alpha) * before


def people_pressure(reading: Reading, settings: PolicySettings) -> float:
    """The worse of x at P95 and the oldest waiting request's age over its target, of everybody:
    whoever waits in a crowd that is not batch's fault waits all the same."""
    oldest_s = max(reading.oldest_waiting_s, reading.everybody_waits_s)
    waiting = oldest_s * 1000.0 / settings.first_token_target_ms
    return max(reading.x_p95 or 0.0, reading.everybody_x_p95 or 0.0, waiting)
