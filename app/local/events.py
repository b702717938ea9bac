"""What happens to supervised processes, as values. `run` is the number of the life it is about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prepared:
    """It may be started now."""

    name: str
    run: int


@dataclass(frozen=True, slots=True)
class Ready:
    """It has become ready."""

    name: str
    run: int


@dataclass(frozen=True, slots=True)
class Ended:
    """Its process has ended."""

    name: str
    run: int


@dataclass(frozen=True, slots=True)
class Failed:
    """It could not be prepared, or is not ready in time."""

    name: str
    why: str
    run: int


@dataclass(frozen=True, slots=True)
class StopAsked:
    """Somebody wants the whole stack to stop."""


@dataclass(frozen=True, slots=True)
class ReloadAsked:
    """Somebody wants the processes that read settings to be started anew."""


Event = Prepared | Ready | Ended | Failed | StopAsked | ReloadAsked
