"""What to do about the members of a pool when so many are wanted: a function of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.local.scaled.member import Phase


@dataclass(frozen=True, slots=True)
class Standing:
    """A member as it is: its name, and where it stands."""

    name: str
    phase: Phase


@dataclass(frozen=True, slots=True)
class Steps:
    """How many to start; whom to take back from leaving; whom to drain; whom to end at once."""

    start: int = 0
    keep: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    end: tuple[str, ...] = ()


def steps(wanted: int, members: Sequence[Standing]) -> Steps:
    """From `members`, oldest first, to `wanted` of them.

    Fewer: those that do not serve yet go first, as they have nothing in flight, then the newest.
    More: those that are leaving stay, the oldest first, before new ones are started.
    """
    here = [one for one in members if one.phase is not Phase.LEAVING]
    leaving = [one for one in members if one.phase is Phase.LEAVING]
    if wanted >= len(here):
        missing = wanted - len(here)
        kept = tuple(one.name for one in leaving[:missing])
        return Steps(start=missing - len(kept), keep=kept)
    starting = [one for one in here if one.phase is Phase.STARTING]
    serving = [one for one in here if one.phase is Phase.SERVING]
    going = [*reversed(starting), *reversed(serving)][: len(here) - wanted]
    return Steps(
        drain=tuple(one.name for one in going if one.phase is Phase.SERVING),
        end=tuple(one.name for one in going if one.phase is Phase.STARTING),
    )
