"""Real small vectors of 256 numbers: wordllama's, or hashed words where it is not installed."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from app.domain.inference import Vectors

DIM = 256
SHORTER = (64, 128)
"""Lengths that `dimensions` may ask for besides: wordllama is trained to be cut there."""

_WORD = re.compile(r"\w+")
log = logging.getLogger(__name__)


class Embedder(Protocol):
    """Texts to unit vectors: (len(texts), 256), the same text always the same vector."""

    def __call__(self, texts: Sequence[str]) -> Vectors: ...


class HashedWords:
    """A bag of words: each word adds to one of 256 places, with a sign, both from its hash."""

    def __call__(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), DIM), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in _WORD.findall(text.lower()) or [text]:
                digest = blake2b(word.encode("utf-8", "replace"), digest_size=4).digest()
                row[digest[0]] += 1.0 if digest[1] & 1 else -1.0
            if not row.any():  # Its words cancelled out.
                row[blake2b(text.encode("utf-8", "replace"), digest_size=1).digest()[0]] = 1.0
        return unit(vectors)


class WordLlamaVectors:
    """Averaged word vectors of a large model, from the files in wordllama's own package."""

    def __init__(self) -> None:
        import wordllama

        folder = Path(wordllama.__file__).parent
        self._model: Any = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
        self._hashed = HashedWords()

    def __call__(self, texts: Sequence[str]) -> Vectors:
        vectors = np.asarray(self._model.embed(list(texts)), dtype=np.float32)
        unknown = ~(np.isfinite(vectors).all(axis=1) & vectors.any(axis=1))
        if unknown.any():
            vectors[unknown] = self._hashed([texts[int(at)] for at in np.flatnonzero(unknown)])
        return unit(vectors)


def embedder() -> Embedder:
    """wordllama's vectors if it is here, else hashed words, which the log tells."""
    try:
        return WordLlamaVectors()
    except (ImportError, OSError) as error:
        log.warning("wordllama is not usable (%s); vectors are hashed bags of words", error)
        return HashedWords()


def unit(vectors: Vectors) -> Vectors:
    """Each row scaled to length 1."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / lengths, dtype=np.float32)


def cut(vectors: Vectors, dim: int) -> Vectors:
    """The first `dim` numbers of each row, scaled to length 1 again."""
    return vectors if dim == vectors.shape[1] else unit(vectors[:, :dim])
