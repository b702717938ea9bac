"""Whose a failed call is: the endpoint's, or that of what was sent.

An outcome is the endpoint's only while others fail there too. What keeps failing while others get
through, or alone while the endpoint answers a cheap request, is at fault itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.domain.health import FAULTS

WINDOW_S = 30.0
"""How far back others' calls tell how an endpoint does."""
_OTHERS = 5
"""So many must get through for each other input that the endpoint failed: below that it sheds load,
and whom it hits is chance."""

_SUSPECTS = 10
"""So many inputs may be at fault themselves while hardly any other gets through; where more are,
the endpoint answers small requests and no others."""

Input = frozenset[tuple[int, int]]
"""What a call was for: its items, each by job and seq. Empty: a request of our own."""


class Blame(StrEnum):
    """Whose fault it is."""

    ENDPOINT = "endpoint"
    INPUT = "input"


@dataclass(frozen=True, slots=True)
class Trial:
    """A call that ended at `at_s` (monotonic). `blame` None: it got through."""

    at_s: float
    sent: Input
    blame: Blame | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known as a call has failed with `code`.

    `failing` other inputs failed there of late by the endpoint's fault, `suspects` by their own;
    `through` calls of others got through, `own` cheap requests among them; `since`: one of them
    after this input had failed there before. `told_to_wait`: the endpoint says when to come back,
    and had not said so to this input before. `answers`: whether it answered a cheap request made
    after the failure; None: it was not asked.
    """

    code: str
    failing: int = 0
    suspects: int = 0
    through: int = 0
    own: int = 0
    since: bool = False
    told_to_wait: bool = False
    answers: bool | None = None


def evidence(
    code: str, sent: Input, trials: Sequence[Trial], now_s: float, *, told_to_wait: bool = False
) -> Evidence:
    """What `trials` at the endpoint, oldest first, say of the call for `sent` that has failed."""
    recent = [one for one in trials if one.at_s >= now_s - WINDOW_S]
    mine = [one.at_s for one in trials if one.blame is not None and one.sent & sent]
    others = [one for one in recent if not one.sent & sent]
    last = {one.sent: one.blame for one in others if one.blame is not None}
    suspects = [one for one, blame in last.items() if blame is Blame.INPUT]
    through = [one.at_s for one in others if one.blame is None]
    return Evidence(
        code,
        failing=sum(blame is Blame.ENDPOINT for blame in last.values()),
        # A micro-batch that was halved since is one suspect with its halves.
        suspects=sum(not any(other < one for other in suspects) for one in suspects),
        through=len(through),
        own=sum(one.blame is None and not one.sent for one in others),
        since=bool(mine and through) and through[-1] > mine[-1],
        told_to_wait=told_to_wait and not mine,  # Else it has waited, and is told the same again.
    )


def asks(known: Evidence) -> bool:
    """Whether a cheap request to the endpoint could still tell; one that has said when to come back
    is left alone until then."""
    return _may_be_input(known) and not known.since and not known.told_to_wait


def blamed(known: Evidence) -> Blame:
    """Whose fault it is, by all that is known."""
    by_input = _may_be_input(known) and (known.since or known.answers is True)
    return Blame.INPUT if by_input else Blame.ENDPOINT


def _may_be_input(known: Evidence) -> bool:
    # A rate limit is none of them: it works, and whom it refuses is chance.
    if known.code not in FAULTS or known.failing * _OTHERS > known.through:
        return False
    return known.suspects <= _SUSPECTS + known.through - known.own
