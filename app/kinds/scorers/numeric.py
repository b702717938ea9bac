"""numeric: the number that the answer ends in is the expected one, as for GSM8K."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from pydantic import Field

from app.kinds.scorers.base import NO_EXPECTED, Case, Options, Score, invalid, unscored
from app.kinds.scorers.final_number import Missing, answered
from app.kinds.scorers.numbers import Number

NO_EXPECTED_NUMBER = "no_expected_number"
UNREADABLE = "unreadable_number"


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
        """1 where the answer's number is one of the expected; an answer that gives none has 0, one
        whose number cannot be read is invalid."""
        if not case.references:
            return unscored(NO_EXPECTED)
        read = [answered(one) for one in case.references]
        wanted = [number for number in read if isinstance(number, Number)]
        if not wanted:
            return unscored(NO_EXPECTED_NUMBER)
        found = answered(case.answer)
        if found is Missing.UNREADABLE:
            return invalid(UNREADABLE, expected=_said(wanted[0]))
        number = found if isinstance(found, Number) else None
        notes = {"found": None if number is None else _said(number), "expected": _said(wanted[0])}
        is_right = number is not None and any(
            number.equals(one, options.relative, options.absolute) for one in wanted
        )
        return Score(float(is_right), notes=notes)


def _said(number: Number) -> str:
    value: Fraction = number.value
    if value.denominator == 1:
        shown = str(value.numerator)
    elif abs(value) < 10**300:
        shown = f"{float(value):.12g}"
    else:
        shown = f"{value.numerator // value.denominator}"
    return f"{shown}%" if number.percent else shown


SCORER = Numeric()
