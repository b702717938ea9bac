"""Cleaning: text and JSON as Postgres takes them, with a note of what had to change.

Postgres refuses NUL in text, `\\u0000` and lone surrogates in jsonb, and NaN or infinity in JSON.
Text from the world and text from models holds all of them, so both pass through here.
"""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

JSON: TypeAlias = "str | int | float | bool | list[JSON] | dict[str, JSON] | None"

MAX_DEPTH: Final = 200
"""Levels of nesting that are kept. orjson writes no more than 254, jsonb parses recursively."""

_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_PAIRS: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_LEAST_INT: Final = -(2**63)
_MOST_INT: Final = 2**64 - 1
_BLANK_CATEGORIES: Final = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
# They draw nothing, but Unicode files them under letters, symbols and marks:
# Hangul fillers, the empty Braille pattern, the grapheme joiner and the variation selectors.
_BLANK_OTHERS: Final = frozenset(
    "\u115f\u1160\u3164\uffa0\u2800\u034f" + "".join(map(chr, range(0xFE00, 0xFE10)))
)


class Flag(StrEnum):
    """What cleaning changed. The values are stable: they are stored and reported."""

    NUL = "nul"
    """NUL characters were removed."""
    SURROGATE = "surrogate"
    """Lone surrogates became U+FFFD (or two halves became the character they mean)."""
    NUMBER = "number"
    """NaN and infinity became null; integers beyond 64 bits became floats."""
    DEPTH = "depth"
    """What was nested deeper than `MAX_DEPTH` became null."""


_NONE: Final[frozenset[Flag]] = frozenset()


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Text that Postgres takes, and what was changed to make it so (nothing: empty)."""

    text: str
    flags: frozenset[Flag] = _NONE


@dataclass(frozen=True, slots=True)
class CleanedJson:
    """A JSON value that Postgres takes, and what was changed to make it so (nothing: empty)."""

    value: JSON
    flags: frozenset[Flag] = _NONE


def is_clean(text: str) -> bool:
    """True where `cleaned` would change nothing. No work per character in Python."""
    if "\x00" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def cleaned(text: str) -> Cleaned:
    """`text` without NUL, with U+FFFD for each lone surrogate. Cleaning twice changes nothing."""
    if is_clean(text):
        return Cleaned(text)
    flags = set()
    if "\x00" in text:
        flags.add(Flag.NUL)
        text = text.replace("\x00", "")
    if _SURROGATES.search(text):
        flags.add(Flag.SURROGATE)
        # Two halves that stand together are one character that was badly decoded: keep it.
        text = _PAIRS.sub(_joined, text)
        text = _SURROGATES.sub("\ufffd", text)
    return Cleaned(text, frozenset(flags))


def joined_halves(text: str) -> str:
    """`text` with every two halves of a character that stand together made into it; a half that
    stands alone stays, for `cleaned` to flag."""
    if text.isascii() or not _PAIRS.search(text):
        return text
    return _PAIRS.sub(_joined, text)


def ends_in_half(text: str) -> bool:
    """Whether the last character is the first half of one, whose other half may still come."""
    return "\ud800" <= text[-1:] <= "\udbff"


def cleaned_json(value: JSON) -> CleanedJson:
    """`value` with every string and key cleaned and every number one that JSON can say."""
    flags: set[Flag] = set()
    result = _cleaned_value(value, flags, MAX_DEPTH)
    return CleanedJson(result, frozenset(flags) if flags else _NONE)


def is_blank(text: str) -> bool:
    """True where nothing would be seen: no characters, or only spaces and zero-width ones."""
    if "!" <= text[:1] <= "~":
        return False
    return all(
        unicodedata.category(char) in _BLANK_CATEGORIES or char in _BLANK_OTHERS for char in text
    )


def _joined(halves: re.Match[str]) -> str:
    return halves[0].encode("utf-16", "surrogatepass").decode("utf-16")


def _cleaned_value(value: JSON, flags: set[Flag], depth: int) -> JSON:
    match value:
        case str():
            return _cleaned_text(value, flags)
        case dict() | list():
            return _cleaned_container(value, flags, depth)
        case float() if not math.isfinite(value):
            flags.add(Flag.NUMBER)
            return None
        case int() if not _LEAST_INT <= value <= _MOST_INT:
            flags.add(Flag.NUMBER)
            return _as_float(value)
        case _:
            return value


def _cleaned_container(value: dict[str, JSON] | list[JSON], flags: set[Flag], depth: int) -> JSON:
    # Loops, not comprehensions: before Python 3.12 each of those doubles the depth of the stack.
    if depth == 0:
        flags.add(Flag.DEPTH)
        return None
    if isinstance(value, dict):
        members: dict[str, JSON] = {}
        for key, item in value.items():
            members[_cleaned_text(key, flags)] = _cleaned_value(item, flags, depth - 1)
        return members
    elements: list[JSON] = []
    for element in value:
        elements.append(_cleaned_value(element, flags, depth - 1))
    return elements


def _cleaned_text(text: str, flags: set[Flag]) -> str:
    if is_clean(text):
        return text
    result = cleaned(text)
    flags |= result.flags
    return result.text


def _as_float(number: int) -> float | None:
    try:
        return float(number)
    except OverflowError:
        return None
