"""A chunk while it is worked on, and what is said of it afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from app import clock
from app.domain.chunks import Lease
from app.domain.inference import Usage
from app.domain.outcomes import Retry
from app.domain.results import ItemResult, Status
from app.domain.resuming import Begun
from app.kinds.base import Kind, Params, Unit
from app.services.claiming import Claimed
from app.services.leases import Held
from app.services.stepping import Steps
from app.services.vectors import Known
from app.storage.call_store import BatchCall
from app.storage.lease_store import Tally
from app.storage.vector_store import Collection

ERROR_LENGTH = 500
"""Characters of an error text that are kept with a result, a chunk or a job."""


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


@dataclass(frozen=True, slots=True)
class Closed:
    """What is kept of an item's call that was closed in the middle: the beginning of its answer.

    `usage` is the call's; `made` of its tokens are kept, less those of a beginning that this one
    replaces. `money` is what the whole call cost.
    """

    seq: int
    begun: Begun
    usage: Usage
    made: int
    money: float


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
    wasted_money: float = 0.0
    to_retry: dict[int, Retry] = field(default_factory=dict)
    given_up: set[int] = field(default_factory=set)
    known: Known = field(default_factory=Known)
    steps: Steps | None = None
    begun: dict[int, Begun] = field(default_factory=dict)
    """Beginnings of answers that closed calls left, by item."""
    carried: int = 0
    """Tokens of the beginning that the last answer goes on from."""
    closed: Closed | None = None
    task: str = "embed"
    """What the last call asked for: chat or embed."""
    rough: bool = False
    """Whether the tokens of its answer are a guess."""
    called_at: float = 0.0
    first_token_s: float | None = None

    @property
    def lease(self) -> Lease:
        """The right to work on it."""
        return self.claimed.lease

    def called(self, items: int, error_code: str | None = None) -> BatchCall:
        """The call that has just ended."""
        closed = self.closed
        return BatchCall(
            job_id=self.lease.job_id,
            pool=self.claimed.job.pool,
            endpoint=self.claimed.endpoint.name,
            model=self.claimed.choice.model,
            seconds=clock.monotonic_s() - self.called_at,
            items=items,
            first_token_s=self.first_token_s,
            prompt_tokens=closed.usage.prompt_tokens if closed else 0,
            completion_tokens=closed.usage.completion_tokens if closed else 0,
            money=closed.money if closed else 0.0,
            rough=closed.usage.rough if closed else self.rough and error_code is None,
            error_code=error_code,
        )

    @property
    def left(self) -> list[int]:
        """The items not tried yet, or not to their end."""
        return list(dict.fromkeys(unit.item.seq for batch in self.todo for unit in batch))

    def let_go(self, seqs: Iterable[int]) -> int:
        """These items need no beginning any more; tokens of those that no answer went on from."""
        return sum(self.begun.pop(seq).tokens for seq in seqs if seq in self.begun)

    def leave_out(self) -> None:
        """Nothing more is sent of items that failed or wait for another attempt."""
        gone = self.given_up | self.to_retry.keys()
        left = ([unit for unit in batch if unit.item.seq not in gone] for batch in self.todo)
        self.todo = [batch for batch in left if batch]


def tally_of(results: Sequence[ItemResult], call: BatchCall | None, dropped: int = 0) -> Tally:
    """What `results` and the call that brought them add to a chunk's counts; `dropped` tokens of
    an earlier call count no more."""
    counts = Counter(result.status for result in results)
    return Tally(
        ok=counts[Status.DONE],
        unchanged=counts[Status.UNCHANGED],
        empty=counts[Status.EMPTY],
        failed=counts[Status.FAILED],
        prompt_tokens=call.prompt_tokens if call else 0,
        completion_tokens=(call.completion_tokens if call else 0) - dropped,
        money=call.money if call else 0.0,
    )
