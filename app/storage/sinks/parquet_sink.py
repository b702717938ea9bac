"""Parquet: row groups of thousands of rows, through pyarrow; an extra."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np
import orjson

from app.domain.flattening import Kind
from app.extras import need
from app.storage.sinks.base import NO_KINDS, Kinds, Row

_ROWS_A_GROUP: Final = 10_000
_BYTES_A_GROUP: Final = 16 * 1024 * 1024


class ParquetSink:
    """Arrays of numbers are lists of 32-bit floats; objects are JSON text, bytes are hex.

    A column's type is that of its kind, where one is given; else that of its first value that is
    not None, text where there is none in the first row group.
    """

    name = "parquet"
    endings = (".parquet", ".pq")
    columnar = True

    def blocks(
        self, rows: Iterable[Row], columns: Sequence[str], kinds: Kinds = NO_KINDS
    ) -> Iterator[tuple[bytes, int]]:
        arrow = _arrow()
        rest = iter(rows)
        group = list(islice(rest, 1))
        size = _group_size(group[0]) if group else 0
        group += islice(rest, max(0, size - 1))
        types = {
            column: _of_kind(arrow, kinds[column])
            if column in kinds
            else _typed(arrow, group, column)
            for column in columns
        }
        out = _Drained()
        schema = arrow.schema([(column, types[column][0]) for column in columns])
        with arrow.parquet.ParquetWriter(arrow.PythonFile(out, "w"), schema) as writer:
            while group:
                arrays = [
                    arrow.array([types[c][1](row.get(c)) for row in group], types[c][0])
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


def _of_kind(arrow: Any, kind: Kind) -> tuple[Any, Callable[[Any], Any]]:
    one: dict[str, Any] = {
        "bool": arrow.bool_(),
        "int": arrow.int64(),
        "float": arrow.float64(),
        "text": arrow.string(),
    }
    if kind in one:
        return one[kind], _float if kind == "float" else _as_it_is
    if kind == "json":
        return arrow.string(), _text
    return arrow.list_(one[kind.removesuffix("s")]), _floats if kind == "floats" else _as_it_is


def _float(value: Any) -> float | None:
    return None if value is None else float(value)


def _floats(value: Any) -> list[float | None] | None:
    return None if value is None else [_float(one) for one in value]


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
    need("Parquet needs", "parquet", ["pyarrow"])
    import pyarrow.parquet

    return pyarrow
