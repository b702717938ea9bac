"""f1: words that answer and expected text have in common, as SQuAD counts them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from app.kinds.scorers.base import NO_EXPECTED, Case, Options, Score, best, unscored
from app.kinds.scorers.words import squad, squeezed


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
        return Score(best([_f1(case.answer, one) for one in case.references]))


def _f1(said: str, reference: str) -> float:
    answer, expected = squad(said).split(), squad(reference).split()
    if not answer or not expected:  # nothing but punctuation and articles is like itself only
        return float(squeezed(said) == squeezed(reference))
    shared = (Counter(answer) & Counter(expected)).total()
    return 2 * shared / (len(answer) + len(expected))


SCORER = F1()
