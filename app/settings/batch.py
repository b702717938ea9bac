"""How jobs are worked on, chunk by chunk."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from app.settings.group import Count, Group, Positive


class BatchSettings(Group):
    """`[batch]`: chunks, leases and retries."""

    lease_s: Annotated[float, Field(ge=3)] = 60.0
    heartbeat_s: Annotated[float, Field(ge=0.2)] = 5.0
    chunk_items: Annotated[int, Field(ge=1, le=100_000)] = 512
    """Items leased together. Where each item needs calls of its own a chunk holds as many items as
    others have calls: chunk_items / micro_batch_items."""
    chunk_s: Annotated[float, Field(ge=0, le=600)] = 20.0
    """Work of a chunk where it is known how fast such jobs are, and the job is large enough; then
    it holds more or fewer items than chunk_items. 0: always chunk_items."""
    micro_batch_items: Annotated[int, Field(ge=1, le=2048)] = 64
    micro_batch_tokens: Annotated[int, Field(ge=16)] = 16_384
    max_attempts: Count = 5
    retry_base_s: Positive = 1.0
    retry_max_s: Positive = 300.0
    crashes_before_split: Count = 3
    call_timeout_s: Positive = 120.0

    @model_validator(mode="after")
    def _beats_before_it_ends(self) -> Self:
        if self.heartbeat_s * 3 > self.lease_s:
            raise ValueError(
                f"heartbeat_s = {self.heartbeat_s:g} must be at most a third of "
                f"lease_s = {self.lease_s:g}, or a busy worker loses its leases"
            )
        return self
