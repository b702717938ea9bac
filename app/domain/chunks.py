"""Chunks: runs of items leased together, and what may happen to them.

ready ──claim──► leased ──finish──► done
  ▲                │
  │                ├─ hand back (limit, shutdown, endpoint cooling) ─► ready, no attempt counted
  └── lease ran out┘
                   └─ crashed its worker too often ─► split (two halves) or dead (one item)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

MAX_SPLIT = 2


class ChunkState(StrEnum):
    """Where a chunk stands. done, split and dead are final."""

    READY = "ready"
    LEASED = "leased"
    DONE = "done"
    SPLIT = "split"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on a chunk until a time; `fence` makes a lost lease harmless.

    `seqs` names the items of a retry chunk; None means first_seq to last_seq, both included.
    `attempt` counts earlier attempts of these items that were answered by an error.
    """

    job_id: int
    no: int
    fence: int
    first_seq: int
    last_seq: int
    seqs: tuple[int, ...] | None
    attempt: int
    crashes: int
    endpoint: str


@dataclass(frozen=True, slots=True)
class Seqs:
    """Which items: a run, or a list. Both ends of a run are included."""

    first: int
    last: int
    listed: tuple[int, ...] | None = None

    @property
    def count(self) -> int:
        """How many items."""
        return self.last - self.first + 1 if self.listed is None else len(self.listed)


def halves(seqs: Seqs) -> tuple[Seqs, Seqs]:
    """The two halves of at least two items, in order, none lost and none doubled."""
    if seqs.count < MAX_SPLIT:
        raise ValueError("one item cannot be split")
    if seqs.listed is None:
        middle = (seqs.first + seqs.last) // 2
        return Seqs(seqs.first, middle), Seqs(middle + 1, seqs.last)
    cut = len(seqs.listed) // 2
    left, right = seqs.listed[:cut], seqs.listed[cut:]
    return Seqs(left[0], left[-1], left), Seqs(right[0], right[-1], right)


def chunk_size(items: int, micro_batch_items: int, *, calls_an_item: bool) -> int:
    """Items of a chunk, where `items` is what a chunk holds whose calls hold many together.

    `calls_an_item`: every item needs calls of its own. Then a chunk is as many items as others have
    calls: a chunk is one request in flight at a time, and few large ones would leave places empty.
    """
    return max(1, items // micro_batch_items) if calls_an_item else items


_LARGEST = 10_000
_A_PLACE = 4
"""Chunks that each place of the pool gets of a job at least: none stands idle at its end."""


def paced_size(plain: int, items_per_s: float | None, chunk_s: float, total: int, most: int) -> int:
    """Items of a chunk that takes about `chunk_s`, of a job of `total` items.

    `items_per_s`: the pace of one place with such jobs lately; None: not known, and `plain` holds.
    `most` places may work on it at once. A job that is too small for that keeps `plain`.
    """
    if items_per_s is None:
        return plain
    wanted = max(1, round(items_per_s * chunk_s))
    if wanted <= plain:
        return wanted
    return max(plain, min(wanted, total // (_A_PLACE * max(1, most)), _LARGEST))


@dataclass(frozen=True, slots=True)
class Rearm:
    """Put the chunk back to ready."""


@dataclass(frozen=True, slots=True)
class Split:
    """Replace the chunk by two halves."""

    left: Seqs
    right: Seqs


@dataclass(frozen=True, slots=True)
class Bury:
    """The one item left kills its worker: record it as failed and go on."""

    seq: int


def after_crash(seqs: Seqs, crashes: int, crashes_before_split: int) -> Rearm | Split | Bury:
    """What to do with a chunk whose lease ran out for the `crashes`-th time without progress."""
    if crashes < crashes_before_split:
        return Rearm()
    if seqs.count == 1:
        return Bury(seqs.first)
    return Split(*halves(seqs))


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk as people see it."""

    no: int
    state: ChunkState
    items: int
    attempt: int
    crashes: int
    worker: str | None
    endpoint: str | None
    not_before: datetime | None
    ok: int
    failed: int
    error_code: str | None
