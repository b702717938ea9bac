"""contains: the answer holds the expected text."""

from __future__ import annotations

from dataclasses import dataclass

from app.kinds.scorers.base import NO_EXPECTED, Case, Options, Score, unscored
from app.kinds.scorers.words import squeezed


class ContainsOptions(Options):
    """Runs of blanks always count as one."""

    ignore_case: bool = True
    """Whether A and a are the same."""
    all: bool = False
    """Of several expected texts: whether all have to be there, not one of them."""


@dataclass(frozen=True, slots=True)
class Contains:
    """The scorer."""

    name: str = "contains"
    rate: bool = True
    needs: tuple[str, ...] = ()
    options: type[Options] = ContainsOptions

    def score(self, case: Case, options: ContainsOptions) -> Score:
        """1 where it is there. An empty expected text is in every answer, so it is none."""
        wanted = [_alike(one, options) for one in case.references if one.strip()]
        if not wanted:
            return unscored(NO_EXPECTED)
        answer = _alike(case.answer, options)
        found = [one in answer for one in wanted]
        return Score(float(all(found) if options.all else any(found)))


def _alike(text: str, options: ContainsOptions) -> str:
    return squeezed(text).casefold() if options.ignore_case else squeezed(text)


SCORER = Contains()
