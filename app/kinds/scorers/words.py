"""Words: texts made alike for comparison, after the rules of the SQuAD evaluation."""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"\w+", re.UNICODE)
_ARTICLES = frozenset({"a", "an", "the"})


def squeezed(text: str) -> str:
    """In Unicode's composed form, with one space for each run of blanks and none at the ends."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def words(text: str, *, articles: bool = True) -> list[str]:
    """Words in lower case without punctuation; without `articles`, English ones are left out."""
    found = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return found if articles else [word for word in found if word not in _ARTICLES]
