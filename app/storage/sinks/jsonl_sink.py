"""JSONL: one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import orjson

from app.storage.sinks.base import NO_KINDS, Kinds, Row

_ROWS_A_BLOCK: Final = 200
# Arrays of 32-bit floats are written with the fewest digits that read back the same.
_OPTIONS: Final = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE


class JsonlSink:
    """Members stand in the order of the columns."""

    name = "jsonl"
    endings = (".jsonl", ".ndjson", ".jsonlines")
    columnar = False

    def blocks(
        self,
        rows: Iterable[Row],
        columns: Sequence[str],
        kinds: Kinds = NO_KINDS,  # noqa: ARG002
    ) -> Iterator[tuple[bytes, int]]:
        lines: list[bytes] = []
        for row in rows:
            plain = {column: row[column] for column in columns}
            lines.append(orjson.dumps(plain, default=_plain, option=_OPTIONS))
            if len(lines) >= _ROWS_A_BLOCK:
                yield b"".join(lines), len(lines)
                lines.clear()
        yield b"".join(lines), len(lines)


SINK = JsonlSink()


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else str(value)
