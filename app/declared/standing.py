"""By what endpoints are judged."""

from __future__ import annotations

from collections.abc import Callable

from app.domain.health import HealthPolicy
from app.domain.retry import RetryPolicy
from app.services.standing import Rules
from app.settings import Settings


def rules_of(settings: Settings, jitter: Callable[[], float]) -> Rules:
    """Retries as `[batch]` has them, breakers as `[health]` has them."""
    batch, health = settings.batch, settings.health
    return Rules(
        RetryPolicy(batch.max_attempts, batch.retry_base_s, batch.retry_max_s),
        HealthPolicy(**health.model_dump()),
        jitter,
    )
