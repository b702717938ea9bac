"""embedding: how close the vectors of answer and expected text are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.domain.cleaning import is_blank
from app.domain.inference import EmbedRequest
from app.kinds.base import Call
from app.kinds.scorers.base import NO_EXPECTED, Case, Options, Score, best, unscored


class EmbeddingOptions(Options):
    """Both texts go to the same model, in one request."""

    model: str
    """The embedding model; it must be served by the pool of the model under test."""
    prefix: str = ""
    """Put before every text, as some models want it."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """The scorer."""

    name: str = "embedding"
    rate: bool = False
    needs: tuple[str, ...] = ()
    options: type[Options] = EmbeddingOptions

    def models(self, options: EmbeddingOptions) -> tuple[str, ...]:
        """The embedding model."""
        return (options.model,)

    def ask(self, case: Case, options: EmbeddingOptions) -> Mapping[str, Call]:
        """One request for the answer and all references; blank texts are never sent."""
        texts = (case.answer, *_references(case))
        if len(texts) == 1 or is_blank(case.answer):
            return {}
        return {"vectors": EmbedRequest(options.model, tuple(options.prefix + t for t in texts))}

    def read(
        self,
        case: Case,
        answers: Mapping[str, Any],
        options: EmbeddingOptions,  # noqa: ARG002
    ) -> Score:
        """The cosine with the closest reference, 0 at least. A blank answer is like nothing."""
        if not _references(case):
            return unscored(NO_EXPECTED)
        if "vectors" not in answers:
            return Score(0.0)
        vectors = np.asarray(answers["vectors"], dtype=np.float64)
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return Score(min(1.0, max(0.0, best([float(one) for one in unit[1:] @ unit[0]]))))


def _references(case: Case) -> list[str]:
    return [one for one in case.references if not is_blank(one)]


SCORER = Embedding()
