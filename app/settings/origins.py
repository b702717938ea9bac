"""Origins: the line of the file or the environment variable that a setting came from."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from app.settings.places import KeyPath, line_of, places
from app.settings.schema import PREFIX, SEPARATOR, variable_paths


class Origins:
    """Answers where a setting was written. `file` None: no file was read."""

    def __init__(
        self, model: type[BaseModel], file: Path | None, environment: Mapping[str, str]
    ) -> None:
        text = _text(file) if file else ""
        self._file = str(file) if file else ""
        self._data = _toml(text)
        self._places = places(text)
        self._environment = {k.upper(): v for k, v in environment.items()}
        self._variables = variable_paths(model)

    def of(self, at: KeyPath) -> str:
        """`giveway.toml:12` or `GIVEWAY_THROTTLE__TICK_S`; nothing where that is not known.

        A rule over a whole table may be broken by either, so that both may be named.
        """
        if (variable := self._overriding(at)) is not None:
            return variable
        line = self.line(at)
        parts = self._variables_of_table(at)
        if line is not None:
            parts.insert(0, f"{self._file}:{line}")
        return " and ".join(parts) or self._file

    def line(self, at: KeyPath) -> int | None:
        """The line of the file on which `at`, or the table around it, stands."""
        return line_of(self._places, at)

    def label(self, table: KeyPath) -> str:
        """`[throttle]` or `[[pools]] "main"`, as people wrote it; nothing for the top."""
        match table:
            case (str(name), int(index), *_):
                return f"[[{name}]] {self._element(name, index)}"
            case (str(name), *_):
                return f"[{name}]"
            case _:
                return ""

    def _overriding(self, at: KeyPath) -> str | None:
        """The variable that decides `at`, whatever the file says."""
        for length in (2, 1):
            variable = self._variables.get(at[:length]) if len(at) >= length else None
            if variable in self._environment and self._decides(variable, at[length:]):
                return variable
        return None

    def _decides(self, variable: str | None, inner: KeyPath) -> bool:
        # A table given as JSON is laid over the file's, key by key; an array replaces the file's.
        value = _json(self._environment.get(variable or "", ""))
        return not isinstance(value, dict) or (bool(inner) and inner[0] in value)

    def _variables_of_table(self, at: KeyPath) -> list[str]:
        if len(at) != 1:
            return []
        whole = f"{PREFIX}{at[0]}".upper()
        names = self._environment
        return sorted(n for n in names if n == whole or n.startswith(whole + SEPARATOR))

    def _element(self, name: str, index: int) -> str:
        """How people tell one table of an array: its name, else its number from 1."""
        variable = self._variables.get((name,), "")
        elements: Any = _json(self._environment.get(variable, "")) or self._data.get(name)
        try:
            return f'"{elements[index]["name"]}"'
        except (LookupError, TypeError):
            return f"number {index + 1}"


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
