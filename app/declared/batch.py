"""What one call for a job may hold."""

from __future__ import annotations

from app.services.work import BatchLimits
from app.settings import Settings


def limits_of(settings: Settings) -> BatchLimits:
    """What `[batch]` says of micro-batches and their calls."""
    batch = settings.batch
    return BatchLimits(batch.micro_batch_items, batch.micro_batch_tokens, batch.call_timeout_s)
