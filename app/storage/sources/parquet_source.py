"""Parquet: row groups in batches, through pyarrow; an extra, `pip install giveway[parquet]`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from app.errors import BadSource
from app.extras import need
from app.storage.sources.base import BadLine, Batch, ReadOptions, Row, Rows
from app.storage.sources.opening import Opened
from app.storage.sources.values import plain_rows
from app.storage.sources.wrong_bytes import wrong_byte

_BATCH_ROWS: Final = 1024
_PIECE_BYTES: Final = 8 * 1024 * 1024


class ParquetSource:
    """Only the columns that are asked for are read. A null text is an empty one. Lines are rows."""

    name = "parquet"
    endings = (".parquet", ".pq")

    def recognises(self, head: bytes) -> bool:
        return head.startswith(b"PAR1")

    def rows(self, opened: Opened, options: ReadOptions) -> Rows:
        if opened.compressed:
            raise BadSource(f"{opened.name}: a Parquet file inside gzip; unpack it first")
        if not opened.head():
            raise BadSource(f"{opened.name} is empty")
        arrow = _arrow()
        try:
            # Buffered: otherwise each column of a row group is in memory as a whole, compressed.
            file = arrow.parquet.ParquetFile(opened.stream, buffer_size=_PIECE_BYTES)
            columns = tuple(file.schema_arrow.names)
        except (arrow.lib.ArrowException, OSError, ValueError) as error:
            raise BadSource(f"{opened.name}: not a Parquet file: {_said(error)}") from error
        return Rows(columns, _batches(file, columns, opened.name, options, arrow))


SOURCE = ParquetSource()


def _batches(
    file: Any, columns: tuple[str, ...], name: str, options: ReadOptions, arrow: Any
) -> Iterator[Batch]:
    wanted = _needed(columns, options)
    line = 0
    try:
        for part in file.iter_batches(_BATCH_ROWS, columns=wanted, use_threads=False):
            names = part.schema.names
            columns_read = [_values(column) for column in part.columns]
            values = list(zip(*columns_read, strict=True))
            batch = plain_rows(names, values, options.text_field, line)
            some_wrong = any(type(column) is _SomeWrong for column in columns_read)
            yield [_judged(row) for row in batch] if some_wrong else batch
            line += len(values)
    except (arrow.lib.ArrowException, OSError, ValueError) as error:
        raise BadSource(f"{name}: row {line + 1} or after: {_said(error)}") from error


class _Wrong(str):
    """Instead of a text whose bytes are none: why."""


class _SomeWrong(list[Any]):
    """Values of a column, some of which are `_Wrong`."""


def _judged(row: Row | BadLine) -> Row | BadLine:
    if isinstance(row, BadLine):
        return row
    wrong = next((value for value in row.values.values() if type(value) is _Wrong), None)
    return row if wrong is None else BadLine(row.line, wrong)


def _values(column: Any) -> list[Any]:
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        return _SomeWrong(_value(one) for one in column)


def _value(one: Any) -> Any:
    try:
        return one.as_py()
    except UnicodeDecodeError as error:
        return _Wrong(wrong_byte(error, error.start))


def _needed(columns: tuple[str, ...], options: ReadOptions) -> list[str] | None:
    """The columns to read; None: all of them. Those that are not there are named by the reading."""
    if options.where is not None or (options.text_field is None and not options.fields):
        return None
    return [column for column in options.wanted if column in columns]


def _arrow() -> Any:
    need("Parquet needs", "parquet", ["pyarrow"])
    import pyarrow.parquet

    return pyarrow


def _said(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
