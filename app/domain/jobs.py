"""What a job is, and which states it may pass through.

    loading ──► ready ──► running ──► completed
                  │  ▲       │  ▲
                  ▼  │       ▼  │      (any open state) ──► cancelled
                 paused ◄────┘──┘      (loading, running) ──► failed

`completed` says how many items failed; it never hides them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class JobState(StrEnum):
    """Where a job stands."""

    LOADING = "loading"
    READY = "ready"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Failover(StrEnum):
    """What a job does when no primary endpoint can serve it: wait for one, go to a backup, or go on
    to a degraded model."""

    WAIT = "wait"
    BACKUP = "backup"
    DEGRADED = "degraded"


NO_MODEL = "none"
"""The model of a job that makes no call at all."""

OPEN = frozenset({JobState.LOADING, JobState.READY, JobState.RUNNING, JobState.PAUSED})
"""States from which a job can still change by itself or by a person."""

CLAIMABLE = frozenset({JobState.READY, JobState.RUNNING})
"""States in which chunks of the job may be leased."""

PAUSED_BY_HAND = "paused by a person"
"""Why a job is paused that nothing is wrong with."""


def way_on(key: str) -> str:
    """What a person does about a job that paused by itself."""
    return f"put that right, then giveway jobs resume {key}"


class Command(StrEnum):
    """What a person can do to a job."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY = "retry"


_ALLOWED: Mapping[Command, frozenset[JobState]] = {
    Command.PAUSE: frozenset({JobState.READY, JobState.RUNNING, JobState.PAUSED}),
    Command.RESUME: frozenset({JobState.PAUSED, JobState.READY, JobState.RUNNING}),
    Command.CANCEL: OPEN | {JobState.CANCELLED},
    Command.RETRY: frozenset({JobState.COMPLETED, JobState.FAILED, JobState.RUNNING}),
}


def states_for(command: Command) -> frozenset[JobState]:
    """The states in which `command` can be given; giving it twice is no error."""
    return _ALLOWED[command]


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job as it was asked for, checked by its kind, not yet in the database.

    `request_hash` stands for everything asked for, the items included: the same key with another
    hash is a conflict. `pool` is where its model is served. `may_yield`: its calls may be closed
    in the middle when a person needs the place; `resume_streamed`: then the next one goes on from
    what had come. `after` are jobs that must be completed first; `window` the hours in which it may
    run; `budget` the money after which it pauses. `source` identifies where its items come from;
    with `delete_missing`, vectors of items that the source gave before and gives no more are
    deleted when the job completes. `webhook` is told its end.
    """

    kind: str
    name: str
    key: str
    request_hash: bytes
    params: Mapping[str, Any]
    pool: str
    model: str
    priority: int = 0
    weight: float = 1.0
    max_in_flight: int | None = None
    may_yield: bool = True
    resume_streamed: bool = False
    deadline_at: datetime | None = None
    tenant: str = "default"
    after: tuple[int, ...] = ()
    window: Mapping[str, Any] | None = None
    failover: Failover = Failover.WAIT
    budget: float | None = None
    source: bytes | None = None
    delete_missing: bool = False
    webhook: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is in the database. `pruned_at`: since then its items and results are gone."""

    id: int
    kind: str
    name: str
    key: str
    request_hash: bytes
    params: Mapping[str, Any]
    pool: str
    model: str
    state: JobState
    reason: str | None
    priority: int
    weight: float
    max_in_flight: int | None
    may_yield: bool
    resume_streamed: bool
    deadline_at: datetime | None
    tenant: str
    after: tuple[int, ...]
    window: Mapping[str, Any] | None
    failover: Failover
    budget: float | None
    source: bytes | None
    delete_missing: bool
    deleted: int
    webhook: Mapping[str, Any] | None
    total: int
    skipped_lines: int
    created_at: datetime
    ready_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    pruned_at: datetime | None = None

    @property
    def stuck(self) -> bool:
        """It paused by itself, since its budget is spent or for another `reason` that does not pass
        by itself. Who paused it by hand goes on with it by hand: such a job is not stuck."""
        return self.state is JobState.PAUSED and self.reason not in (None, PAUSED_BY_HAND)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is: sums over its chunk rows, exact at any time.

    `done` counts items with a result that is no failure; of them, `unchanged` needed no call and
    `empty` had nothing to send. `failed` counts items whose failure is final, `retrying` those
    that wait for another attempt. `money` is what its calls cost, by the endpoints' prices.
    """

    total: int
    done: int
    unchanged: int
    empty: int
    failed: int
    retrying: int
    in_flight: int
    chunks_open: int
    prompt_tokens: int
    completion_tokens: int
    wasted_tokens: int
    money: float = 0.0

    @property
    def pending(self) -> int:
        """Items with no result yet."""
        return self.total - self.done - self.failed

    @property
    def share(self) -> float:
        """Between 0 and 1; an empty job is done."""
        return 1.0 if self.total == 0 else (self.done + self.failed) / self.total
