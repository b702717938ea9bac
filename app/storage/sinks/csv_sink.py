"""CSV: a header, then one row a line, CRLF as RFC 4180 has it; arrays and objects as JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import orjson

from app.storage.sinks.base import NO_KINDS, Kinds, Row

_ROWS_A_BLOCK: Final = 200


class CsvSink:
    """None is an empty cell."""

    name = "csv"
    endings = (".csv",)
    columnar = False

    def blocks(
        self,
        rows: Iterable[Row],
        columns: Sequence[str],
        kinds: Kinds = NO_KINDS,  # noqa: ARG002
    ) -> Iterator[tuple[bytes, int]]:
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(columns)
        count = 0
        for row in rows:
            writer.writerow([_cell(row[column]) for column in columns])
            count += 1
            if count >= _ROWS_A_BLOCK:
                yield text.getvalue().encode(), count
                text.seek(0)
                text.truncate()
                count = 0
        yield text.getvalue().encode(), count


SINK = CsvSink()


def _cell(value: Any) -> Any:
    match value:
        case None | str() | int() | float():
            return value
        case bytes():
            return value.hex()
        case _:
            return orjson.dumps(value, default=str, option=orjson.OPT_SERIALIZE_NUMPY).decode()
