"""Three signs, in words, that end a run: are people well, does batch move, is the total kept."""

from __future__ import annotations

from dataclasses import dataclass

LATE_AT_MOST_S = 20
"""Longer than this with P95 over target is "for long": a window and a cut, twice."""
STILL_AT_MOST_S = 30.0


@dataclass(frozen=True, slots=True)
class Sign:
    """One sentence, and whether it is good news."""

    kept: bool
    text: str


def people(late_s: float) -> Sign:
    """From the longest time in which P95 was over target with batch and not without."""
    if late_s <= 0:
        return Sign(True, "people: P95 was never over target because of batch")
    kept = late_s <= LATE_AT_MOST_S
    word = "at most" if kept else "as long as"
    return Sign(kept, f"people: P95 was over target because of batch for {word} {late_s:.0f} s")


def backlog(still_s: float, done: int) -> Sign:
    """From the longest time without any batch work, and the number of batch calls done."""
    kept = done > 0 and still_s <= STILL_AT_MOST_S
    moving = "kept moving" if kept else "stood still"
    return Sign(
        kept, f"backlog: {moving}, {done:,} calls done, never idle for over {still_s:.0f} s"
    )


def total(most: int, places: int) -> Sign:
    """From the most requests in flight at once, of both classes."""
    kept = most <= places
    word = "never passed" if kept else "PASSED"
    return Sign(kept, f"total: {word}, at most {most} of {places} places in use at once")
