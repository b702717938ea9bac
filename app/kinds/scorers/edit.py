"""edit: how few characters have to change to make the answer the expected text."""

from __future__ import annotations

from dataclasses import dataclass

from app.kinds.scorers.base import NO_EXPECTED, Case, Options, Score, best, unscored
from app.kinds.scorers.words import squeezed


class EditOptions(Options):
    """Runs of blanks always count as one."""

    ignore_case: bool = False
    """Whether A and a are the same."""


@dataclass(frozen=True, slots=True)
class Edit:
    """The scorer."""

    name: str = "edit"
    rate: bool = False
    needs: tuple[str, ...] = ("rapidfuzz",)
    options: type[Options] = EditOptions

    def score(self, case: Case, options: EditOptions) -> Score:
        """1 less the Levenshtein distance as a share of the longer text."""
        from rapidfuzz.distance import Levenshtein

        if not case.references:
            return unscored(NO_EXPECTED)
        answer = _alike(case.answer, options)
        found = [_alike(one, options) for one in case.references]
        return Score(best([Levenshtein.normalized_similarity(answer, one) for one in found]))


def _alike(text: str, options: EditOptions) -> str:
    return squeezed(text).casefold() if options.ignore_case else squeezed(text)


SCORER = Edit()
