"""Filtering: which rows of a file are wanted, by an expression over their fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jinja2 import TemplateError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from app.errors import UsageError
from app.storage.sources.base import BadLine, Row, Unreadable

_NOTHING: Final[Sequence[BadLine]] = ()
_EXPRESSIONS: Final = ImmutableSandboxedEnvironment()
_EXPRESSIONS.globals.clear()


class Filter:
    """A Jinja expression, sandboxed, such as `lang == "de" and words > 20`.

    `names` are the fields it speaks of. UsageError: it is no expression, or names no field.
    """

    def __init__(self, expression: str) -> None:
        try:
            parsed = _EXPRESSIONS.parse("{{ (" + expression + ") }}")
            self._holds: Any = _EXPRESSIONS.compile_expression(expression)
        except TemplateError as error:
            raise UsageError(
                f"--where {expression!r} is no expression: {error}; "
                'write it like: lang == "de" and words > 20'
            ) from None
        assert isinstance(parsed, nodes.Template)
        self.names = tuple(sorted(meta.find_undeclared_variables(parsed)))
        if not self.names:
            raise UsageError(f"--where {expression!r} speaks of no field")

    def refuses(self, row: Row | BadLine) -> Sequence[BadLine] | None:
        """None: the row is wanted (a bad line is, so that it is counted). Else it is not, and the
        sequence says why where the expression could not be worked out."""
        if isinstance(row, BadLine):
            return None
        for name in self.names:
            if isinstance(why := row.values.get(name), Unreadable):
                return (BadLine(row.line, f"{name} is {why}"),)
        try:
            return None if self._holds(row.values) else _NOTHING
        except (TemplateError, TypeError) as error:
            return (BadLine(row.line, f"--where cannot be worked out: {error}"),)
        except Exception as error:  # noqa: BLE001 - whatever methods of texts raise, with the text
            why = type(error).__name__
            return (BadLine(row.line, f"--where cannot be worked out: {why}"),)


def names_in(expression: str | None) -> tuple[str, ...]:
    """The fields that `expression` speaks of. UsageError: it is none."""
    return () if expression is None else Filter(expression).names
