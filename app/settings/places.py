"""Places: on which line of a TOML text each key stands.

tomllib keeps no line numbers. This scanner reads text that tomllib has accepted, so it need not
check anything; and it is believed only where it finds exactly the keys that tomllib found.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""`("pools", 0, "total")`: keys by name, elements of arrays by index from 0."""

_SPACE: Final = re.compile(r"[ \t]*")
_GAP: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_BASIC: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL: Final = re.compile(r"'[^'\n]*'")
_LONG_BASIC: Final = re.compile(r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})', re.DOTALL)
_LONG_LITERAL: Final = re.compile(r"'''.*?'''(?:'{0,2})", re.DOTALL)
_SCALAR: Final = re.compile(r"[^,\]\}\n#]+")


def places(text: str) -> dict[KeyPath, int]:
    """The line (from 1) of every key, table and element in `text`; empty where that is not sure."""
    try:
        scanner = _Scanner(text.replace("\r\n", "\n"))
        scanner.document()
        known = _paths(tomllib.loads(text), ())
    except (ValueError, IndexError, RecursionError, KeyError):
        return {}
    return scanner.found if set(scanner.found) == known else {}


def line_of(known: Mapping[KeyPath, int], path: KeyPath) -> int | None:
    """The line of `path`, or of the nearest table around it; None where nothing is known."""
    for length in range(len(path), 0, -1):
        if path[:length] in known:
            return known[path[:length]]
    return None


def _paths(value: Any, path: KeyPath) -> set[KeyPath]:
    found = {path} if path else set()
    if isinstance(value, dict):
        for key, inner in value.items():
            found |= _paths(inner, (*path, key))
    if isinstance(value, list):
        for index, inner in enumerate(value):
            found |= _paths(inner, (*path, index))
    return found


class _Scanner:
    """One walk over valid TOML, noting where each path first appears."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._counts: dict[KeyPath, int] = {}
        """Tables so far in each array of tables."""
        self.found: dict[KeyPath, int] = {}

    def document(self) -> None:
        table: KeyPath = ()
        self._skip(_GAP)
        while self._at < len(self._text):
            table = self._header() if self._text[self._at] == "[" else self._member(table)
            self._skip(_GAP)

    def _header(self) -> KeyPath:
        """`[a.b]` or `[[a.b]]`; the path of the table that begins here."""
        line, double = self._line(), self._text.startswith("[[", self._at)
        self._at += 2 if double else 1
        path: KeyPath = ()
        keys = self._keys()
        for number, key in enumerate(keys, start=1):
            path = (*path, key)
            self.found.setdefault(path, line)
            if double and number == len(keys):
                self._counts[path] = self._counts.get(path, 0) + 1
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
                self.found.setdefault(path, line)
        self._at += 2 if double else 1
        return path

    def _member(self, table: KeyPath) -> KeyPath:
        """`a.b = value` in `table`, which is given back."""
        line, path = self._line(), table
        for key in self._keys():
            path = (*path, key)
            self.found.setdefault(path, line)
        self._at += 1  # the =
        self._skip(_SPACE)
        self._value(path)
        return table

    def _value(self, path: KeyPath) -> None:
        match self._text[self._at]:
            case "[":
                self._array(path)
            case "{":
                self._inline_table(path)
            case '"':
                long = self._text.startswith('"""', self._at)
                self._take(_LONG_BASIC if long else _BASIC)
            case "'":
                long = self._text.startswith("'''", self._at)
                self._take(_LONG_LITERAL if long else _LITERAL)
            case _:
                self._take(_SCALAR)

    def _array(self, path: KeyPath) -> None:
        index = 0
        self._at += 1  # the [
        while self._more("]"):
            self.found.setdefault((*path, index), self._line())
            self._value((*path, index))
            index += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1  # the {
        while self._more("}"):
            self._member(path)

    def _more(self, end: str) -> bool:
        """Past a comma and the gaps around it: is there one more, or did `end` come (taken)?"""
        self._skip(_GAP)
        if self._text[self._at] == ",":
            self._at += 1
            self._skip(_GAP)
        if self._text[self._at] == end:
            self._at += 1
            return False
        return True

    def _keys(self) -> list[str]:
        keys: list[str] = []
        while True:
            self._skip(_SPACE)
            keys.append(self._key())
            self._skip(_SPACE)
            if self._text[self._at] != ".":
                return keys
            self._at += 1

    def _key(self) -> str:
        match self._text[self._at]:
            case '"':
                written = self._take(_BASIC)
                try:
                    return str(json.loads(written))
                except json.JSONDecodeError:  # \U0001F600, which JSON does not know
                    return next(iter(tomllib.loads(f"{written} = 0")))
            case "'":
                return self._take(_LITERAL)[1:-1]
            case _:
                return self._take(_BARE_KEY)

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise ValueError(f"no {pattern.pattern} at {self._at}")
        self._at = match.end()
        return match[0]

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1
