"""bleu: sacrebleu's sentence BLEU, with its own tokens and smoothing."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal

from app.kinds.scorers.base import NO_EXPECTED, Case, Options, Score, unscored


class BleuOptions(Options):
    """The metric is the mean over items; BLEU over a whole corpus is another figure."""

    tokenize: Literal["13a", "intl", "char", "none"] = "13a"
    """How sacrebleu cuts texts into tokens; char for Chinese and Japanese."""
    lowercase: bool = False
    """Whether A and a are the same."""


@dataclass(frozen=True, slots=True)
class Bleu:
    """The scorer."""

    name: str = "bleu"
    rate: bool = False
    needs: tuple[str, ...] = ("sacrebleu",)
    options: type[Options] = BleuOptions

    def score(self, case: Case, options: BleuOptions) -> Score:
        """BLEU of the answer against all references together, from 0 to 1."""
        if not case.references:
            return unscored(NO_EXPECTED)
        metric = _metric(options.tokenize, options.lowercase)
        return Score(metric.sentence_score(case.answer, case.references).score / 100)


@functools.cache
def _metric(tokenize: str, lowercase: bool) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    # Sentences are short: without the effective order one of three words would always have 0.
    return BLEU(tokenize=tokenize, lowercase=lowercase, effective_order=True)


SCORER = Bleu()
