"""Parquet: row groups of thousands of rows, through pyarrow; an extra."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np
import orjson

from app.errors import MissingPart
from app.storage.sinks.base import Row

_ROWS_A_GROUP: Final = 10_000
_BYTES_A_GROUP: Final = 16 * 1024 * 1024


class ParquetSink:
    """Arrays of numbers are lists of 32-bit floats; objects are JSON text, bytes are hex.

    A column's type is that of its first value that is not None; text where there is none in the
    first row group.
    """

    name = "parquet"
    endings = (".parquet", ".pq")

    def blocks(self, rows: Iterable[Row], columns: Sequence[str]) -> Iterator[tuple[bytes, int]]:
        arrow = _arrow()
        rest = iter(rows)
        group = list(islice(rest, 1))
        size = _group_size(group[0]) if group else 0
        group += islice(rest, max(0, size - 1))
        types = {column: _typed(arrow, group, column) for column in columns}
        out = _Drained()
        schema = arrow.schema([(column, types[column][0]) for column in columns])
        with arrow.parquet.ParquetWriter(arrow.PythonFile(out, "w"), schema) as writer:
            while group:
                arrays = [
                    arrow.array([types[c][1](row[c]) for row in group], types[c][0])
                    for c in columns
                ]
                writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
                yield out.drained(), len(group)
                group = list(islice(rest, size))
        yield out.drained(), 0


SINK = ParquetSink()


class _Drained(io.RawIOBase):
    """Bytes as they are written, taken away in between; it knows how many there were."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._at = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._at += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._at

    def drained(self) -> bytes:
        whole = b"".join(self._pieces)
        self._pieces.clear()
        return whole


def _group_size(row: Row) -> int:
    row_bytes = sum(v.nbytes for v in row.values() if isinstance(v, np.ndarray))
    return min(_ROWS_A_GROUP, max(1, _BYTES_A_GROUP // max(1, row_bytes)))


def _typed(arrow: Any, group: Sequence[Row], column: str) -> tuple[Any, Callable[[Any], Any]]:
    """The type of a column, and what makes a value one of it."""
    match next((row[column] for row in group if row[column] is not None), None):
        case bool():
            return arrow.bool_(), _as_it_is
        case int():
            return arrow.int64(), _as_it_is
        case float():
            return arrow.float64(), _as_it_is
        case np.ndarray():
            return arrow.list_(arrow.float32()), _as_it_is
        case _:
            return arrow.string(), _text


def _as_it_is(value: Any) -> Any:
    return value


def _text(value: Any) -> str | None:
    match value:
        case None | str():
            return value
        case bytes():
            return value.hex()
        case _:
            return orjson.dumps(value, default=str, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def _arrow() -> Any:
    try:
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise MissingPart(
            "Parquet needs pyarrow; install it with: pip install 'giveway[parquet]'"
        ) from error
    return pyarrow
