"""rouge_l: the longest run of words, gaps allowed, that answer and expected text share."""

from __future__ import annotations

from dataclasses import dataclass

from app.kinds.scorers.base import NO_EXPECTED, Case, Options, Score, best, unscored
from app.kinds.scorers.words import words


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
        answer = words(case.answer)
        return Score(best([_rouge_l(answer, words(one)) for one in case.references]))


def _rouge_l(answer: list[str], expected: list[str]) -> float:
    from rapidfuzz.distance import LCSseq

    if not answer or not expected:
        return float(answer == expected)
    return 2 * LCSseq.similarity(answer, expected) / (len(answer) + len(expected))


SCORER = RougeL()
