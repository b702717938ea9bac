"""Values of databases and of Arrow as JSON."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from psycopg.types.range import Range

from app.domain.cleaning import JSON
from app.storage.sources.base import Batch, Row, Unreadable
from app.storage.sources.wrong_bytes import wrong_byte

_AS_THEY_ARE: Final = frozenset({str, int, float, bool})
_PLAIN: Final = _AS_THEY_ARE | {type(None)}


def plain_rows(
    columns: Sequence[str], part: Sequence[Sequence[Any]], text_field: str | None, before: int
) -> Batch:
    """`part` as rows, of which `before` came before them: values by column, as JSON.

    Null where a text should be is an empty one: the column is there, and there is nothing in it.
    Bytes where a text should be are read as UTF-8: some writers keep texts in binary columns.
    """
    lines = range(before + 1, before + 1 + len(part))
    made: Iterable[dict[str, Any]] = (dict(zip(columns, values, strict=True)) for values in part)
    # Looking at a whole part at once costs a fraction of looking at each value.
    if not set(map(type, chain.from_iterable(part))) <= _AS_THEY_ARE:
        return [_plain_row(line, row, text_field) for line, row in zip(lines, made, strict=True)]
    return list(map(Row, lines, made))


def _plain_row(line: int, row: dict[str, Any], text_field: str | None) -> Row:
    if text_field is not None:
        text = row.get(text_field, "")
        if text is None:
            row[text_field] = ""
        elif isinstance(text, bytes | bytearray | memoryview):
            try:
                row[text_field] = bytes(text).decode("utf-8")
            except UnicodeDecodeError as error:
                row[text_field] = Unreadable(wrong_byte(error, error.start))
    for name, value in row.items():
        if type(value) not in _PLAIN:
            try:
                row[name] = plain(value)
            except _Within as error:
                row[name] = error.why
            except RecursionError:
                row[name] = Unreadable("nested too deeply")
    return Row(line, row)


class _Within(Exception):
    """Somewhere in a value is one that cannot be read."""

    def __init__(self, why: Unreadable) -> None:
        super().__init__(why)
        self.why = why


def plain(value: Any) -> JSON:
    """A value of a database or of Arrow as JSON: numbers stay numbers where nothing is lost, times
    are ISO 8601, bytes are hex."""
    match value:
        case Unreadable():
            raise _Within(value)
        case None | str() | bool() | int() | float():
            return value
        case decimal.Decimal():
            whole = value.is_finite() and value == value.to_integral_value()
            return int(value) if whole else str(value)
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta():
            return value.total_seconds()
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case enum.Enum():
            return plain(value.value)
        case Range():
            plain(value.lower), plain(value.upper)  # Neither may be one that cannot be read.
            return str(value)
        case Mapping():
            return {str(name): plain(one) for name, one in value.items()}
        case Sequence() | set() | frozenset():
            return [plain(one) for one in value]
        case _:
            return str(value)
