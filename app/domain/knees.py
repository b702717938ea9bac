"""How large a micro-batch an endpoint carries well, learnt from the calls it has answered.

Throughput rises with the size of a call and levels off; past the knee a larger call brings nothing
and keeps people waiting longer. The knee is the smallest size that does nearly as well as the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NEARLY = 0.95
"""Of the best throughput: what the knee must reach."""
ENOUGH_CALLS = 4
"""Fewer calls of a size say nothing."""
_CHECKPOINT_S = 0.005
"""What every call costs besides its own time; it speaks against very small ones."""
_ROUND = 8
"""Of so many chunks one is cut smaller and one larger, to see what that brings."""
_SMALLER, _LARGER = 0.5, 2.0


@dataclass(frozen=True, slots=True)
class Size:
    """Calls of about one size, added up."""

    calls: int
    items: int
    tokens: int
    seconds: float

    @property
    def tokens_per_s(self) -> float:
        """Of one place."""
        return self.tokens / (self.seconds + _CHECKPOINT_S * self.calls)


@dataclass(frozen=True, slots=True)
class Knee:
    """The size that an endpoint carries well, an average call's."""

    items: float
    tokens: float


def knee(sizes: Sequence[Size]) -> Knee | None:
    """The knee that `sizes` show; None: only one size was tried often enough to tell."""
    known = [size for size in sizes if size.calls >= ENOUGH_CALLS and size.tokens > 0]
    if len(known) < 2:
        return None
    best = max(size.tokens_per_s for size in known)
    well = [size for size in known if size.tokens_per_s >= NEARLY * best]
    found = min(well, key=lambda size: size.tokens / size.calls)
    return Knee(found.items / found.calls, found.tokens / found.calls)


@dataclass(frozen=True, slots=True)
class Most:
    """Bounds of a micro-batch."""

    items: int
    tokens: int


def sized(learnt: Knee | None, chunk_no: int, most: Most) -> Most:
    """The bounds of the micro-batches of the `chunk_no`-th chunk, never beyond `most`.

    One chunk in eight tries half the size, one twice the size; while nothing is learnt that is half
    and all of `most`.
    """
    factor = {5: _SMALLER, 0: _LARGER}.get(chunk_no % _ROUND, 1.0)
    if learnt is None:
        factor = min(1.0, factor)
        return Most(max(1, round(most.items * factor)), max(1, round(most.tokens * factor)))
    # Tokens are the measure: items are alike on average only, and a run of long ones is a large
    # call. A little room, so that an average call still fits.
    items = round(learnt.items * factor * _ROOM)
    tokens = round(learnt.tokens * factor * _ROOM)
    return Most(max(1, min(most.items, items)), max(1, min(most.tokens, tokens)))


_ROOM = 1.1
