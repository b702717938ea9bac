"""When people's texts share a call, and what it may hold."""

from __future__ import annotations

from app.domain.merging import MergeRule
from app.settings import Settings


def rule_of(settings: Settings) -> MergeRule:
    """What `[merging]` says, with no more tokens in a call than a micro-batch of a job has."""
    merging = settings.merging
    return MergeRule(merging.wait_ms / 1000, merging.most_texts, settings.batch.micro_batch_tokens)
