"""Parquet: row groups in batches, through pyarrow; an extra, `pip install giveway[parquet]`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from app.errors import BadSource
from app.extras import need
from app.storage.sources.base import Batch, ReadOptions, Rows, Unreadable
from app.storage.sources.columns import needed
from app.storage.sources.filtering import names_in
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
    read = needed(columns, options, names_in(options.where))
    wanted = None if read is None else list(read)
    line = 0
    try:
        for part in file.iter_batches(_BATCH_ROWS, columns=wanted, use_threads=False):
            names = part.schema.names
            values = list(zip(*map(_values, part.columns), strict=True))
            yield plain_rows(names, values, options.text_field, line)
            line += len(values)
    except (arrow.lib.ArrowException, OSError, ValueError) as error:
        raise BadSource(f"{name}: row {line + 1} or after: {_said(error)}") from error


def _values(column: Any) -> list[Any]:
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (ValueError, OverflowError):  # Of any of them: bytes that are no text, the year 12000.
        return [_value(one) for one in column]


def _value(one: Any) -> Any:
    try:
        return one.as_py()
    except UnicodeDecodeError as error:
        return Unreadable(wrong_byte(error, error.start))
    except (ValueError, OverflowError):
        return Unreadable(f"a {one.type} that cannot be kept exactly")


def _arrow() -> Any:
    need("Parquet needs", "parquet", ["pyarrow"])
    import pyarrow.parquet

    return pyarrow


def _said(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
