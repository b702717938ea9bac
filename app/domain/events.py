"""Facts that services tell an observer. They hold ids and numbers, never texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class JobReady:
    """A job was submitted and can run."""

    job_id: int
    kind: str
    items: int


@dataclass(frozen=True, slots=True)
class MicroBatchDone:
    """A micro-batch was checkpointed."""

    job_id: int
    kind: str
    done: int
    failed: int
    total: int
    tokens: int


@dataclass(frozen=True, slots=True)
class LeaseRescued:
    """A lease ran out; the chunk was re-armed, split or buried."""

    job_id: int
    no: int
    action: str


@dataclass(frozen=True, slots=True)
class JobFinished:
    """A job reached a final state."""

    job_id: int
    kind: str
    state: str
    done: int
    failed: int


@dataclass(frozen=True, slots=True)
class LimitMoved:
    """A pool's limit was recomputed."""

    pool: str
    limit: int
    pressure: float
    reason: str


Event = JobReady | MicroBatchDone | LeaseRescued | JobFinished | LimitMoved


class Observer(Protocol):
    """Whoever wants to know. Must not raise and must not block."""

    def saw(self, event: Event) -> None:
        """Take note of `event`."""
        ...


class Nobody:
    """An observer that ignores everything."""

    def saw(self, event: Event) -> None:
        """Ignore `event`."""
