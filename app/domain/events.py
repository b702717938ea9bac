"""Facts that services tell an observer. They hold ids and numbers, never texts.

A new fact is a frozen dataclass that derives from `Event`; nothing else has to know of it. In the
event log its type is the class's name in snake case (`LeaseRescued`: lease_rescued); the fields
`pool`, `endpoint` and `job_id` are columns there, and all others stand in `facts`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import Enum
from typing import Any, ClassVar, Protocol, cast


class Event:
    """A fact. `logged` False: it comes too often, or says too little, to be kept."""

    __slots__ = ()
    logged: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class JobReady(Event):
    """A job was submitted and can run."""

    job_id: int
    kind: str
    items: int


@dataclass(frozen=True, slots=True)
class MicroBatchDone(Event):
    """A micro-batch was checkpointed."""

    logged: ClassVar[bool] = False

    job_id: int
    kind: str
    done: int
    failed: int
    total: int
    tokens: int


@dataclass(frozen=True, slots=True)
class ChunkLeased(Event):
    """Work on a chunk begins, for the `attempt`-th time after the first."""

    logged: ClassVar[bool] = False

    job_id: int
    key: str
    kind: str
    no: int
    items: int
    attempt: int
    endpoint: str


@dataclass(frozen=True, slots=True)
class LeaseRescued(Event):
    """A lease ran out; the chunk was re-armed, split or buried."""

    job_id: int
    no: int
    action: str


@dataclass(frozen=True, slots=True)
class JobFinished(Event):
    """A job reached a final state."""

    job_id: int
    kind: str
    state: str
    done: int
    failed: int


@dataclass(frozen=True, slots=True)
class JobSteered(Event):
    """A job was paused, resumed or cancelled. `reason` is a code or a fixed phrase of ours."""

    job_id: int
    state: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RunLaunched(Event):
    """A schedule's run has its job."""

    schedule: str
    nominal_at: datetime
    job_id: int


@dataclass(frozen=True, slots=True)
class RunSkipped(Event):
    """A schedule's run was passed by: `reason` is a word, such as overlap."""

    schedule: str
    nominal_at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class RunFailed(Event):
    """A schedule's run could not be launched, however often it was tried. `code`: the error's
    class."""

    schedule: str
    nominal_at: datetime
    code: str


@dataclass(frozen=True, slots=True)
class DeliveryGivenUp(Event):
    """A job's end could not be told to its webhook. `status`: the last answer; None: none came."""

    job_id: int
    status: int | None


@dataclass(frozen=True, slots=True)
class LimitMoved(Event):
    """A pool's limit was recomputed and is another than before."""

    pool: str
    limit: int
    before: int
    pressure: float
    reason: str


@dataclass(frozen=True, slots=True)
class EndpointOpened(Event):
    """An endpoint failed so often in a row that it gets nothing but probes. `code`: the last
    one."""

    pool: str
    endpoint: str
    code: str


@dataclass(frozen=True, slots=True)
class EndpointProbed(Event):
    """An open endpoint was probed; `ok`: it gets work again. `code`: what was wrong."""

    pool: str
    endpoint: str
    ok: bool
    code: str | None


@dataclass(frozen=True, slots=True)
class EndpointSlow(Event):
    """An endpoint became slow, or is no longer. `pace`: times as long as its peers."""

    endpoint: str
    slow: bool
    pace: float | None


@dataclass(frozen=True, slots=True)
class EndpointSteered(Event):
    """An endpoint was added, drained, undrained or removed. `action` is that word."""

    pool: str
    endpoint: str
    action: str


@dataclass(frozen=True, slots=True)
class ScaledOut(Event):
    """One more endpoint is wanted than before."""

    pool: str
    wanted: int
    before: int
    reason: str


@dataclass(frozen=True, slots=True)
class ScaledIn(Event):
    """One endpoint fewer is wanted than before."""

    pool: str
    wanted: int
    before: int
    reason: str


@dataclass(frozen=True, slots=True)
class ScaleFailed(Event):
    """What was wanted could not be had: `code` is hook_failed, hook_timed_out or start_failed."""

    pool: str
    wanted: int
    code: str
    status: int | None = None


class Observer(Protocol):
    """Whoever wants to know. Must not raise and must not block."""

    def saw(self, event: Event) -> None:
        """Take note of `event`."""
        ...


class Nobody:
    """An observer that ignores everything."""

    def saw(self, event: Event) -> None:
        """Ignore `event`."""


class Several:
    """Tells each event to several observers, in order."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def saw(self, event: Event) -> None:
        """Tell them all."""
        for observer in self._observers:
            observer.saw(event)


_COLUMNS = ("pool", "endpoint", "job_id")


def type_of(event: Event) -> str:
    """The event's type in the log: its class's name in snake case."""
    return _word(type(event))


def _word(kind: type[Event]) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()


SCALING = tuple(map(_word, (ScaledOut, ScaledIn, ScaleFailed)))
"""Types of what automatic scaling does."""


def columns_of(event: Event) -> dict[str, Any]:
    """`pool`, `endpoint` and `job_id`; None for those that the event has not."""
    return {name: getattr(event, name, None) for name in _COLUMNS}


def facts_of(event: Event) -> Mapping[str, Any]:
    """All other fields, as JSON takes them."""
    names = (field.name for field in fields(cast(Any, event)))
    return {name: _plain(getattr(event, name)) for name in names if name not in _COLUMNS}


def _plain(value: Any) -> Any:
    match value:
        case Enum():
            return value.value
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(inner) for inner in value]
        case _:
            return str(value)
