"""An item of a run with its scores, as it stands in the results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MOST_UNSCORED = 0.10
"""Share of items without scores past which a run gives no verdict."""


class Standing(StrEnum):
    """Where an item stands. Only SCORED has scores of every metric."""

    SCORED = "scored"
    ERROR = "error"
    INVALID = "invalid"
    EMPTY = "empty"
    PENDING = "pending"


_INVALID = frozenset({"invalid", "judge_invalid"})
"""States of a score that say that an answer, or a judge's, cannot be read."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What one metric says of an item: a value a repeat, None where there is none, and why."""

    values: tuple[float | None, ...]
    states: tuple[str | None, ...]
    codes: tuple[str | None, ...]

    @property
    def scored(self) -> tuple[float, ...]:
        """The values that there are."""
        return tuple(value for value in self.values if value is not None)

    @property
    def value(self) -> float | None:
        """The item's score: the mean of its repeats; None: none of them has one."""
        scored = self.scored
        return sum(scored) / len(scored) if scored else None

    @property
    def standing(self) -> Standing:
        """SCORED with one value or more, else why not."""
        if self.scored:
            return Standing.SCORED
        return Standing.INVALID if _INVALID & set(self.states) else Standing.ERROR


@dataclass(frozen=True, slots=True)
class RunItem:
    """An item of a run. `content` stands for its question and expected answer: equal where they
    are. `code` says why it has no answer to score."""

    key: str
    content: str
    standing: Standing
    code: str | None = None
    marks: Mapping[str, Marks] = field(default_factory=dict)


def item_of(
    key: str, content: str, status: str | None, code: str | None, scores: Mapping[str, Any] | None
) -> RunItem:
    """An item from its result's status, code and scores; status None: it has none yet."""
    match status:
        case None:
            return RunItem(key, content, Standing.PENDING)
        case "empty":
            return RunItem(key, content, Standing.EMPTY, code)
        case "done" if scores:
            marks = {name: _marks(given) for name, given in scores.items()}
            return RunItem(key, content, _worst(marks), marks=marks)
        case _:
            return RunItem(key, content, Standing.ERROR, code)


def _marks(given: Sequence[Mapping[str, Any]]) -> Marks:
    return Marks(
        tuple(_number(one.get("value")) for one in given),
        tuple(one.get("state") for one in given),
        tuple(one.get("code") for one in given),
    )


def _number(value: Any) -> float | None:
    """A value that can be averaged: NaN and infinity are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _worst(marks: Mapping[str, Marks]) -> Standing:
    found = {one.standing for one in marks.values()}
    if Standing.ERROR in found:
        return Standing.ERROR
    return Standing.INVALID if Standing.INVALID in found else Standing.SCORED
