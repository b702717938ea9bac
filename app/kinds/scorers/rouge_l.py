"""rouge_l: the longest run of words, gaps allowed, that answer and expected text share."""

from __future__ import annotations

from dataclasses import dataclass

from app.kinds.scorers.base import NO_EXPECTED, Case, Options, Score, best, unscored
from app.kinds.scorers.words import squeezed, words


@dataclass(frozen=True, slots=True)
class RougeL:
    """The scorer."""

    name: str = "rouge_l"
    rate: bool = False
    needs: tuple[str, ...] = ("rapidfuzz",)
    options: type[Options] = Options

    def score(self, case: Case, options: Options) -> Score:  # noqa: ARG002
        """ROUGE-L's F-measure (Lin 2004), precision and recall weighing the same."""
        if not case.references:
            return unscored(NO_EXPECTED)
        return Score(best([_rouge_l(case.answer, one) for one in case.references]))


def _rouge_l(said: str, reference: str) -> float:
    from rapidfuzz.distance import LCSseq

    answer, expected = words(said), words(reference)
    if not answer or not expected:  # nothing but punctuation is like itself only
        return float(squeezed(said) == squeezed(reference))
    return 2 * LCSseq.similarity(answer, expected) / (len(answer) + len(expected))


SCORER = RougeL()
