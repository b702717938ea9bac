"""Numbers as people and models write them, read exactly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

_MAX_DIGITS = 60
"""A longer row of digits is no answer to anything, and reading it takes long."""
_MAX_EXPONENT = 300

_DIGITS = r"""
    (?:\d{1,3}(?:,\d{3})+(?:\.\d+)?        # 1,234,567.5
     |\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?  # 12,34,567.5
     |\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?      # 1.234.567,5
     |\d{1,3}(?:\.\d{3})+,\d+              # 1.234,5
     |\d{1,3}(?:[ \u00a0\u202f'’_]\d{3})+(?:[.,]\d+)?  # 1 234 567,5
     |\d+(?:\.\d+)?|\.\d+)
"""
_NUMBER = re.compile(
    rf"""
    (?<![\w.])
    (?P<sign>[-+−–]?)(?:[$€£¥₹]\s?(?P<sign2>[-−])?)?
    (?:(?P<whole>\d+)\s+(?=\d+\s*[/⁄]\s*\d))?
    (?P<digits>{_DIGITS})
    (?:,(?P<comma>\d{{1,2}})(?![\d,]))?
    (?:\s*[/⁄]\s*(?P<over>\d+)(?!\d*[/⁄.]\d))?
    (?:(?:[eE]|\s?[x×·*]\s?10\^?)(?P<exponent>[-+−]?\d{{1,3}})(?!\d))?
    (?:\s?(?P<percent>%|percent\b)|\s(?P<scale>thousand|million|billion)\b)?
    """,
    re.VERBOSE,
)
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_GROUPS = re.compile(r"[ \u00a0\u202f'’_]")


@dataclass(frozen=True, slots=True)
class Number:
    """`value` is what is written, 50 for `50 %`; `percent` says that it was written so."""

    value: Fraction
    percent: bool = False

    @property
    def readings(self) -> tuple[Fraction, ...]:
        """What it may mean: of 50 % both 50 and a half."""
        return (self.value, self.value / 100) if self.percent else (self.value,)

    def equals(self, other: Number, relative: float, absolute: float) -> bool:
        """Whether both may mean the same, as far apart as allowed from `other`.

        Two percentages are compared as written, so that 50 % is never half a percent.
        """
        mine = self.readings if self.percent != other.percent else (self.value,)
        theirs = other.readings if self.percent != other.percent else (other.value,)
        return any(
            abs(one - another) <= max(Fraction(absolute), Fraction(relative) * abs(another))
            for one in mine
            for another in theirs
        )


def numbers(text: str) -> Iterator[Number]:
    """Every number in `text`, in order: signs, currencies, thousands separators, decimal commas,
    fractions, mixed numbers, powers of ten, percents, and thousand, million or billion after it."""
    for found in _NUMBER.finditer(text):
        number = _read(found)
        if number is not None:
            yield number


def _read(found: re.Match[str]) -> Number | None:
    digits = _plain(found["digits"])
    if found["comma"] is not None:
        if "." in digits or "," in found["digits"]:
            return None
        digits = f"{digits}.{found['comma']}"
    if len(digits) > _MAX_DIGITS or len(found["whole"] or "") > _MAX_DIGITS:
        return None
    exponent = int((found["exponent"] or "0").replace("−", "-"))
    if abs(exponent) > _MAX_EXPONENT:
        return None
    value = Fraction(digits)
    if found["over"] is not None:
        if int(found["over"]) == 0 or len(found["over"]) > _MAX_DIGITS:
            return None
        value /= int(found["over"])
    value = (value + int(found["whole"] or 0)) * Fraction(10) ** exponent
    value *= _SCALES.get(found["scale"] or "", 1)
    minus = (found["sign"] + (found["sign2"] or "")).strip("+")
    return Number(-value if minus else value, percent=found["percent"] is not None)


def _plain(digits: str) -> str:
    """With a point for the decimals and nothing between thousands."""
    text = _GROUPS.sub("", digits)
    if "," in text and "." in text:
        decimal = max(text.rfind(","), text.rfind("."))
        return re.sub(r"[.,]", "", text[:decimal]) + "." + text[decimal + 1 :]
    if text.count(".") > 1:
        return text.replace(".", "")
    if "," in text:
        head, _, tail = text.rpartition(",")
        is_decimal = _GROUPS.search(digits) is not None and "," not in head
        return f"{head}.{tail}" if is_decimal else text.replace(",", "")
    return text
