"""JSONL: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import orjson

from app.storage.sources.base import BadLine, Batch, ReadOptions, Row, Rows
from app.storage.sources.encodings import UTF_8, wrong_text
from app.storage.sources.opening import Chunk, Opened

_KINDS: Final = {list: "an array", str: "a string", bool: "true or false", type(None): "null"}


class JsonlSource:
    """Blank lines are skipped. What orjson refuses is read again by the standard library, which
    takes lone surrogates, NaN and raw control characters: they are cleaned later, not refused."""

    name = "jsonl"
    endings = (".jsonl", ".ndjson", ".jsonlines")

    def recognises(self, head: bytes) -> bool:
        return head.lstrip().startswith(b"{")

    def rows(self, opened: Opened, options: ReadOptions) -> Rows:  # noqa: ARG002
        return Rows(columns=None, batches=_batches(opened))


SOURCE = JsonlSource()


def _batches(opened: Opened) -> Iterator[Batch]:
    line = 1
    loads, codec = orjson.loads, opened.codec
    for chunk in opened.chunks():
        batch: Batch = []
        for index, raw in enumerate(chunk.lines):
            try:
                values = loads(raw if codec == UTF_8 else raw.decode(codec))
            except ValueError:  # No JSON, or no text.
                if not raw.strip():
                    continue
                batch.append(_second_reading(chunk, index, line + index, opened))
                continue
            if type(values) is dict:
                batch.append(Row(line + index, values))
            else:
                batch.append(_not_an_object(line + index, values))
        line += len(chunk.lines)
        yield batch


def _second_reading(chunk: Chunk, index: int, line: int, opened: Opened) -> Row | BadLine:
    raw = chunk.lines[index]
    try:
        text = raw.decode(opened.codec, opened.errors).rstrip("\r\n")
    except UnicodeDecodeError as error:
        offset = chunk.offset + sum(map(len, chunk.lines[:index])) + error.start
        return BadLine(line, wrong_text(error, offset, opened.codec))
    try:
        values = json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        return BadLine(line, f"not JSON: {_said(error)} at column {error.colno}")
    except RecursionError:
        return BadLine(line, "JSON nested too deeply")
    except ValueError:  # an integer of more than 4,300 digits
        return BadLine(line, "not JSON that can be kept: a number is too long")
    return Row(line, values) if isinstance(values, dict) else _not_an_object(line, values)


def _said(error: json.JSONDecodeError) -> str:
    return error.msg[:1].lower() + error.msg[1:].removesuffix(" at")


def _not_an_object(line: int, value: Any) -> BadLine:
    return BadLine(line, f"{_KINDS.get(type(value), 'a number')}, not an object")
