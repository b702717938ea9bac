"""Numbers in English words, such as forty-two."""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS = dict(
    zip(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
        ],
        range(20),
        strict=True,
    )
)
_TENS = dict(
    zip(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"],
        range(20, 100, 10),
        strict=True,
    )
)
_BIG = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_WORD = "|".join(sorted([*_UNITS, *_TENS, "hundred", *_BIG], key=len, reverse=True))
_ALL = re.compile(
    rf"\b(?:(?P<minus>minus|negative)\s+)?"
    rf"(?P<words>(?:{_WORD})(?:(?:[\s-]+|\s+and\s+)(?:{_WORD}))*)\b(?!-)",
    re.IGNORECASE,
)


def in_words(text: str) -> list[Fraction | None]:
    """Every number in words, in order; None where the words make none."""
    return [_read(found) for found in _ALL.finditer(text)]


def _read(found: re.Match[str]) -> Fraction | None:
    total = part = 0
    last = 10**15
    for word in re.findall(r"[a-z]+", found["words"].lower()):
        if word == "and":
            continue
        if word in _BIG:
            total, part, last = total + max(part, 1) * _BIG[word], 0, 10**15
        elif word == "hundred":
            part, last = max(part, 1) * 100, 100
        else:
            value = _UNITS.get(word, _TENS.get(word, 0))
            # `twenty five` is one number, `five twenty` is none.
            if value >= (10 if last in _TENS.values() else last) or last < 20:
                return None
            part, last = part + value, value
    return Fraction(-(total + part) if found["minus"] else total + part)
