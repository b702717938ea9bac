"""Counting tokens before they are sent, and saying what the count rests on.

After a call the server's own usage counts; before it, whoever can count best does: the server's
tokenize call, a tokenizer file, or a guess that says it is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from app.domain.inference import rough_tokens


class Basis(StrEnum):
    """What a count rests on. SERVER: its own tokenizer, asked; TOKENIZER: a file of the same one;
    ROUGH: four characters a token."""

    SERVER = "server"
    TOKENIZER = "tokenizer"
    ROUGH = "rough"


@dataclass(frozen=True, slots=True)
class Counted:
    """`counts` has a number a text, in order; special tokens count where the basis knows them."""

    counts: tuple[int, ...]
    basis: Basis

    @property
    def total(self) -> int:
        """All texts together."""
        return sum(self.counts)

    @property
    def is_rough(self) -> bool:
        """Whether it is a guess: good for an estimate, not to refuse a text by."""
        return self.basis is Basis.ROUGH


class Tokens(Protocol):
    """Counts tokens as one model does. Never raises for what the texts hold."""

    def count(self, texts: Sequence[str]) -> Counted:
        """A count for each text; all of one basis."""
        ...


@dataclass(frozen=True, slots=True)
class Rough:
    """The count that needs nothing."""

    def count(self, texts: Sequence[str]) -> Counted:
        """Four characters a token, at least one a text."""
        return Counted(tuple(map(rough_tokens, texts)), Basis.ROUGH)


def surely_fits(text: str, most: int) -> bool:
    """Whether `text` has at most `most` tokens whatever the tokenizer.

    No tokenizer in use makes more tokens than bytes; room is left for special ones.
    """
    if 4 * len(text) + _SPECIAL <= most:  # The dearest character has four bytes.
        return True
    return len(text.encode("utf-8", "surrogatepass")) + _SPECIAL <= most


_SPECIAL = 8
