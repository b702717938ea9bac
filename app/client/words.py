"""Words that stand for a state or a policy."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from app.errors import UnknownName

Word = TypeVar("Word", bound=StrEnum)


def word(words: type[Word], what: str, said: Word | str) -> Word:
    """The one of `words` that `said` is. UnknownName lists them."""
    try:
        return words(said)
    except ValueError:
        raise UnknownName(what, str(said), [one.value for one in words]) from None
