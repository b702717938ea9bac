"""Splitting long texts into pieces at the best seams there are: paragraphs, sentences, words."""

from __future__ import annotations

import functools
from typing import NamedTuple

from semantic_text_splitter import TextSplitter

from app.domain.inference import rough_tokens


class Piece(NamedTuple):
    """`text[begins:ends]` of the whole text, in characters, without blanks at its ends."""

    begins: int
    ends: int
    text: str


def pieces(text: str, most_tokens: int, overlap_tokens: int = 0) -> list[Piece]:
    """`text` in pieces of at most `most_tokens`, in order; each begins `overlap_tokens` early.

    Tokens are counted roughly (`rough_tokens`), so leave room under the model's own limit. A text
    that fits is one piece. What stands between pieces is nothing but blanks: nothing that can be
    seen is lost. The same text and numbers give the same pieces.
    """
    if rough_tokens(text) <= most_tokens:
        return [Piece(0, len(text), text)]
    found = _splitter(most_tokens, overlap_tokens).chunk_indices(text)
    return [Piece(begins, begins + len(part), part) for begins, part in found]


def beginning(text: str, most_tokens: int) -> Piece:
    """The first piece: what a text is cut down to where the rest is given up."""
    return pieces(text, most_tokens)[0]


@functools.lru_cache(maxsize=16)
def _splitter(most_tokens: int, overlap_tokens: int) -> TextSplitter:
    return TextSplitter.from_callback(rough_tokens, most_tokens, overlap=overlap_tokens)
