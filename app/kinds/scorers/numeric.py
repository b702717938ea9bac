"""numeric: the number that the answer ends in is the expected one, as for GSM8K."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from pydantic import Field

from app.kinds.scorers.base import NO_EXPECTED, Case, Options, Score, unscored
from app.kinds.scorers.numbers import Number, numbers

NO_EXPECTED_NUMBER = "no_expected_number"

_MARKED = re.compile(r"####\s*(.+)")
_BOXED = re.compile(r"\\boxed\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")
_SAID = re.compile(r"\banswer\b[*_`\s]*(?:is\b|are\b|:|=)[*_`\s:]*(.+)", re.IGNORECASE)
_FRAC = re.compile(r"\\[dt]?frac\s*\{\s*(-?\d+)\s*\}\s*\{\s*(\d+)\s*\}")


class NumericOptions(Options):
    """Numbers are compared exactly, as fractions; a difference has to be allowed."""

    relative: Annotated[float, Field(ge=0, lt=1)] = 1e-9
    """Difference allowed, as a share of the expected number."""
    absolute: Annotated[float, Field(ge=0)] = 0.0
    """Difference allowed, as it is."""


@dataclass(frozen=True, slots=True)
class Numeric:
    """The scorer."""

    name: str = "numeric"
    rate: bool = True
    needs: tuple[str, ...] = ()
    options: type[Options] = NumericOptions

    def score(self, case: Case, options: NumericOptions) -> Score:
        """1 where the answer's number is one of the expected; an answer without one has 0."""
        if not case.references:
            return unscored(NO_EXPECTED)
        wanted = [number for one in case.references if (number := final_number(one)) is not None]
        if not wanted:
            return unscored(NO_EXPECTED_NUMBER)
        found = final_number(case.answer)
        notes = {"found": None if found is None else _said(found), "expected": _said(wanted[0])}
        is_right = found is not None and any(
            found.equals(one, options.relative, options.absolute) for one in wanted
        )
        return Score(float(is_right), notes=notes)


def final_number(text: str) -> Number | None:
    """The number that `text` gives as its answer; None: it gives none.

    What follows the last `####`, or stands in the last \\boxed{}, or follows the last `answer is`
    counts; without any of these it is the last number of all.
    """
    plain = _FRAC.sub(r"\1/\2", text).replace("\\$", "$").replace("\\%", "%").replace("{,}", ",")
    for place in (_MARKED, _BOXED):
        said = place.findall(plain)
        if said:
            return next(numbers(said[-1]), None)
    for line in reversed(_SAID.findall(plain)):
        number = _first_result(line)
        if number is not None:
            return number
    return _last(plain)


def _first_result(line: str) -> Number | None:
    """Of `6 * 7 = 42 dollars.` the 42: what stands after the last equals sign."""
    return next(numbers(line.rpartition("=")[2]), None)


def _last(text: str) -> Number | None:
    number = None
    for number in numbers(text):  # noqa: B007 - the last one is wanted
        pass
    return number


def _said(number: Number) -> str:
    value: Fraction = number.value
    whole = value.denominator == 1
    shown = str(value.numerator) if whole else f"{float(value):.12g}"
    return f"{shown}%" if number.percent else shown


SCORER = Numeric()
