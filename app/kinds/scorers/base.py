"""What a scorer is: it says how good an answer is, as a number between 0 and 1.

A scorer is one file in this package that defines `SCORER`; nothing else is edited. It is pure. What
keeps it from a score is a state, never a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

from app.kinds.base import Call


class State(StrEnum):
    """How a scoring ended. Only SCORED has a value."""

    SCORED = "scored"
    ERROR = "error"
    INVALID = "invalid"
    JUDGE_INVALID = "judge_invalid"


class Options(BaseModel):
    """Base of a scorer's own options: frozen, and closed against misspelt names."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


@dataclass(frozen=True, slots=True)
class Case:
    """An answer to be scored. `expected` is as the data set has it; None: it has none."""

    question: str
    answer: str
    expected: Any = None

    @property
    def references(self) -> list[str]:
        """The expected answers as texts: one, or those of a list."""
        if self.expected is None:
            return []
        many = self.expected if isinstance(self.expected, list) else [self.expected]
        return [said(one) for one in many]


@dataclass(frozen=True, slots=True)
class Score:
    """`value` is None unless `state` is SCORED. `code` says what kept it from one; `notes` are what
    a person wants to see beside it, as JSON."""

    value: float | None
    state: State = State.SCORED
    code: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As it stands in an item's result; what is not there is left out."""
        plain: dict[str, Any] = {"value": self.value}
        if self.state is not State.SCORED:
            plain = {"state": self.state.value, "code": self.code}
        return plain | dict(self.notes)


class Scorer(Protocol):
    """One way to score."""

    @property
    def name(self) -> str:
        """The stable word for it: the metric's name too."""
        ...

    @property
    def rate(self) -> bool:
        """Whether every value is 0 or 1, so that their mean is a rate."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Modules that it imports when it scores, all in the extra `evaluate`."""
        ...

    @property
    def options(self) -> type[Options]:
        """The model of its options."""
        ...


@runtime_checkable
class Local(Scorer, Protocol):
    """A scorer that needs nothing but the answer."""

    def score(self, case: Case, options: Any) -> Score:
        """The score of one answer."""
        ...


@runtime_checkable
class Asking(Scorer, Protocol):
    """A scorer that has to ask a model."""

    def models(self, options: Any) -> tuple[str, ...]:
        """The models it asks."""
        ...

    def ask(self, case: Case, options: Any) -> Mapping[str, Call]:
        """The calls it needs, by names that are stable within the answer; none: it needs none."""
        ...

    def read(self, case: Case, answers: Mapping[str, Any], options: Any) -> Score:
        """The score from the answers to those calls, as steps keep them."""
        ...


def unscored(code: str, **notes: Any) -> Score:
    """No score, since something is missing or broken."""
    return Score(None, State.ERROR, code, notes)


def invalid(code: str, **notes: Any) -> Score:
    """No score, since the answer cannot be read; another number would be a lie."""
    return Score(None, State.INVALID, code, notes)


NO_EXPECTED = "no_expected"
"""The data set has no expected answer for the item."""


def best(values: Sequence[float]) -> float:
    """The value against the reference that fits best."""
    return max(values)


def said(value: Any) -> str:
    """A value of the data set as text; what is no text, as JSON."""
    if isinstance(value, str):
        return value
    import orjson

    return orjson.dumps(value).decode()
