"""A chunk while it is worked on, and what is said of it afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from app import clock
from app.domain.chunks import Lease
from app.domain.outcomes import Retry
from app.kinds.base import Kind, Params, Unit
from app.services.claiming import Claimed
from app.services.leases import Held
from app.storage.call_store import BatchCall
from app.storage.vector_store import Collection


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What bounds a micro-batch and its call, where the endpoint says nothing narrower."""

    micro_batch_items: int = 64
    micro_batch_tokens: int = 16_384
    call_timeout_s: float = 120.0


@dataclass(frozen=True, slots=True)
class ChunkReport:
    """What became of a doorbell: short facts for Flower, never a text."""

    job: int
    done: int = 0
    failed: int = 0
    tokens: int = 0
    seconds: float = 0.0
    ended: str = "finished"
    """finished · yielded · handed_back · lost · or, where nothing was leased, why."""


@dataclass(slots=True)
class Work:
    """A chunk while it is worked on."""

    claimed: Claimed
    held: Held
    kind: Kind
    params: Params
    collection: Collection | None
    todo: list[Sequence[Unit]]
    done: int = 0
    failed: int = 0
    tokens: int = 0
    wasted: int = 0
    to_retry: dict[int, Retry] = field(default_factory=dict)
    called_at: float = 0.0
    first_token_s: float | None = None

    @property
    def lease(self) -> Lease:
        """The right to work on it."""
        return self.claimed.lease

    def called(self, items: int, error_code: str | None = None) -> BatchCall:
        """The call that has just ended."""
        return BatchCall(
            job_id=self.lease.job_id,
            pool=self.claimed.job.pool,
            endpoint=self.claimed.endpoint.name,
            seconds=clock.monotonic_s() - self.called_at,
            items=items,
            first_token_s=self.first_token_s,
            error_code=error_code,
        )

    @property
    def left(self) -> list[int]:
        """The items not tried yet."""
        return [unit.item.seq for batch in self.todo for unit in batch]
