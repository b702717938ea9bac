"""Words: texts made alike for comparison."""

from __future__ import annotations

import re
import string
import unicodedata

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_DRAWN = frozenset({"So", "Sk"})
"""Categories of signs that mean something by themselves, such as emoji."""
_VARIANTS = frozenset("\ufe0e\ufe0f")


def squeezed(text: str) -> str:
    """In Unicode's composed form, with one space for each run of blanks and none at the ends."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def squad(text: str) -> str:
    """As the official evaluation of SQuAD has it (Rajpurkar et al. 2016): lower case, then ASCII
    punctuation removed, not replaced, then English articles, then blanks squeezed. The composed
    form of Unicode before all that is ours."""
    lower = unicodedata.normalize("NFC", text).lower()
    return " ".join(_ARTICLES.sub(" ", lower.translate(_NO_PUNCTUATION)).split())


def unpunctuated(text: str) -> str:
    """Folded to one case and without punctuation of any script; 3.5 and -5 keep theirs. What is
    punctuation and nothing else stays as it is."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("−", "-")
    kept = [one for at, one in enumerate(folded) if _counts(folded, at)]
    return " ".join("".join(kept).split()) or squeezed(folded)


def _counts(text: str, at: int) -> bool:
    """Whether the character is more than punctuation: a letter, a sign, or part of a number."""
    if not unicodedata.category(text[at]).startswith("P"):
        return True
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if text[at] == ".":
        return before.isdigit() and after.isdigit()
    return text[at] == "-" and after.isdigit() and not before.isalnum()


def words(text: str) -> list[str]:
    """Runs of letters and digits, with the marks on them, folded to one case, and each emoji by
    itself; without punctuation."""
    found: list[str] = []
    is_open = False
    for one in unicodedata.normalize("NFKC", text).casefold():
        category = unicodedata.category(one)
        is_mark = category[0] == "M" and one not in _VARIANTS
        if one.isalnum() or one == "_" or (is_mark and is_open):
            found[-1:] = [found[-1] + one] if is_open else [*found[-1:], one]
            is_open = True
            continue
        is_open = False
        if category in _DRAWN and not one.isascii():
            found.append(one)
    return found
