"""How long each sort of row is kept."""

from __future__ import annotations

from app.services.retention import Periods
from app.settings import Settings

_HOUR_S = 3600.0
_DAY_S = 86_400.0


def periods_of(settings: Settings) -> Periods:
    """Hours of `[interactive]` and `[throttle]` and days of `[retention]`, in seconds."""
    retention = settings.retention
    return Periods(
        requests_s=settings.interactive.keep_requests_h * _HOUR_S,
        decisions_s=settings.throttle.keep_decisions_h * _HOUR_S,
        events_s=retention.keep_events_days * _DAY_S,
        jobs_s=retention.keep_jobs_days * _DAY_S,
        deliveries_s=retention.keep_deliveries_days * _DAY_S,
    )
