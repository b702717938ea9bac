"""f1: words that answer and expected text have in common, as SQuAD counts them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from app.kinds.scorers.base import NO_EXPECTED, Case, Options, Score, best, unscored
from app.kinds.scorers.words import words


@dataclass(frozen=True, slots=True)
class F1:
    """The scorer."""

    name: str = "f1"
    rate: bool = False
    needs: tuple[str, ...] = ()
    options: type[Options] = Options

    def score(self, case: Case, options: Options) -> Score:  # noqa: ARG002
        """The harmonic mean of precision and recall over words, of the best reference."""
        if not case.references:
            return unscored(NO_EXPECTED)
        answer = words(case.answer, articles=False)
        return Score(best([_f1(answer, words(one, articles=False)) for one in case.references]))


def _f1(answer: list[str], expected: list[str]) -> float:
    if not answer or not expected:
        return float(answer == expected)
    shared = (Counter(answer) & Counter(expected)).total()
    return 2 * shared / (len(answer) + len(expected))


SCORER = F1()
