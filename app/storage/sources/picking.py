"""Picking: from a row with every column to a record with the fields asked for, cleaned."""

from __future__ import annotations

from math import isnan
from typing import Final

from app.domain.cleaning import JSON, cleaned, cleaned_json, is_blank, is_clean
from app.storage.sources.base import BadLine, Batch, ReadOptions, Record, Row, Unreadable

MAX_KEY_BYTES: Final = 2_000
"""A key stands in an index, and a B-tree entry of Postgres holds 2,704 bytes."""
_SURELY_SHORT: Final = MAX_KEY_BYTES // 4
_EXACT: Final = 2.0**53


class Picker:
    """Makes records of rows. Counts what it had to clean and what is blank."""

    def __init__(self, options: ReadOptions) -> None:
        self._id = options.id_field
        self._text = options.text_field
        self._fields = tuple(options.fields.items())
        self._whole = options.takes_all
        self.cleaned = 0
        self.blank = 0

    def records(self, batch: Batch, number: int) -> tuple[list[Record], list[BadLine]]:
        """The good and the bad of `batch`, before which came `number` records.

        Nearly every record has an id and a text of plain characters, and nothing else is wanted:
        those are made here, without a call for each question. All others go to `record`.
        """
        records: list[Record] = []
        bad: list[BadLine] = []
        new, id_field, text_field = tuple.__new__, self._id, self._text
        simple = id_field is not None and text_field is not None and not self._fields
        for row in batch:
            number += 1
            if simple and type(row) is Row:
                values = row[1]
                key, text = values.get(id_field), values.get(text_field)  # type: ignore[arg-type]
                if type(key) is int:
                    key = str(key)
                if (
                    type(key) is str
                    and type(text) is str
                    and "!" <= key[:1] <= "~"
                    and "!" <= text[:1] <= "~"
                    and len(key) < _SURELY_SHORT
                    and key.isascii()
                    and text.isascii()
                    and "\x00" not in key
                    and "\x00" not in text
                ):
                    records.append(new(Record, (row[0], key, {"text": text})))
                    continue
            found = row if isinstance(row, BadLine) else self.record(row, number)
            if isinstance(found, BadLine):
                bad.append(found)
            else:
                records.append(found)
        return records, bad

    def record(self, row: Row, number: int) -> Record | BadLine:
        """The record of `row`, the `number`-th of the file (from 1), or why it is none."""
        line, values = row
        changed = False
        payload: dict[str, JSON] = {}
        if self._id is None:
            key = str(number)
        else:
            named = _key(line, values, self._id)
            if isinstance(named, BadLine):
                return named
            key = named
        if self._text is not None:
            try:
                text = values[self._text]
            except KeyError:
                return _missing(line, self._text)
            if text is None:
                text = ""
            if type(text) is Unreadable:
                return _unreadable(line, self._text, text)
            if type(text) is not str:
                return BadLine(line, f"{self._text} is {_said(text)}, not text")
            if not is_clean(text):
                text, changed = cleaned(text).text, True
            if is_blank(text):
                text = ""
                self.blank += 1
            payload["text"] = text
        if self._fields or self._whole:
            added = self._add_fields(payload, line, values)
            if isinstance(added, BadLine):
                return added
            changed = changed or added
        self.cleaned += changed
        return Record(line, key, payload)

    def _add_fields(
        self, payload: dict[str, JSON], line: int, values: dict[str, JSON]
    ) -> bool | BadLine:
        """Adds the fields to `payload`: whether any changed, or why they cannot be added."""
        chosen = values
        if not self._whole:
            try:
                chosen = {name: values[column] for name, column in self._fields}
            except KeyError as error:
                return _missing(line, str(error.args[0]))
        if Unreadable in map(type, chosen.values()):
            name, why = next((n, v) for n, v in chosen.items() if isinstance(v, Unreadable))
            return _unreadable(line, dict(self._fields).get(name, name), why)
        result = cleaned_json(dict(chosen))
        if isinstance(result.value, dict):
            payload.update(result.value)
        return bool(result.flags)


def _key(line: int, values: dict[str, JSON], field: str) -> str | BadLine:
    try:
        value = values[field]
    except KeyError:
        return _missing(line, field)
    match value:
        case Unreadable():
            return _unreadable(line, field, value)
        case str():
            key = value if is_clean(value) else cleaned(value).text
        case bool() | None | list() | dict():
            return BadLine(line, f"{field} is {_said(value)}; an id is text or a number")
        case int():
            key = str(value)
        case float() if abs(value) >= _EXACT:
            # orjson reads integers beyond 64 bits as floats, and an id must not lose digits.
            return BadLine(line, f"{field} is a number too large to keep exactly; write it as text")
        case float() if isnan(value):
            return BadLine(line, f"{field} is not a number; an id is text or a number")
        case float():
            key = str(int(value) if value.is_integer() else value)
    if is_blank(key):
        return BadLine(line, f"{field} is empty")
    if len(key) > _SURELY_SHORT and (size := len(key.encode())) > MAX_KEY_BYTES:
        return BadLine(line, f"{field} is {size:,} bytes long; the most is {MAX_KEY_BYTES:,}")
    return key


def _unreadable(line: int, field: str, why: Unreadable) -> BadLine:
    return BadLine(line, f"{field} is {why}")


def _missing(line: int, field: str) -> BadLine:
    return BadLine(line, f"no field {field!r}")


def _said(value: JSON) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case list():
            return "an array"
        case dict():
            return "an object"
        case _:
            return "a number"
