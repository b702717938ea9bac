"""exact: the answer is the expected text."""

from __future__ import annotations

from dataclasses import dataclass

from app.kinds.scorers.base import NO_EXPECTED, Case, Options, Score, unscored
from app.kinds.scorers.words import squeezed, unpunctuated


class ExactOptions(Options):
    """Runs of blanks always count as one."""

    ignore_case: bool = False
    """Whether A and a are the same."""
    ignore_punctuation: bool = False
    """Whether case and punctuation are left out; the point in 3.5 and the sign of -5 are not."""


@dataclass(frozen=True, slots=True)
class Exact:
    """The scorer."""

    name: str = "exact"
    rate: bool = True
    needs: tuple[str, ...] = ()
    options: type[Options] = ExactOptions

    def score(self, case: Case, options: ExactOptions) -> Score:
        """1 where it equals one of the references."""
        if not case.references:
            return unscored(NO_EXPECTED)
        answer = _alike(case.answer, options)
        return Score(float(any(_alike(one, options) == answer for one in case.references)))


def _alike(text: str, options: ExactOptions) -> str:
    if options.ignore_punctuation:
        return unpunctuated(text)
    return squeezed(text).casefold() if options.ignore_case else squeezed(text)


SCORER = Exact()
