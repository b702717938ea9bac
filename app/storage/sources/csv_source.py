"""CSV: a header, then one record a row; a cell may hold many lines."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from app.errors import BadSource
from app.storage.sources.base import BadLine, Batch, ReadOptions, Row, Rows
from app.storage.sources.encodings import wrong_text
from app.storage.sources.opening import Chunk, Opened
from app.storage.sources.words import delimiter_named

if TYPE_CHECKING:
    from _csv import Reader

_BINARY: Final = bytes(range(9))
"""No header has such bytes; a Parquet file begins with some."""
DELIMITERS: Final = (",", ";", "\t", "|")
MAX_CELL_CHARS: Final = 16 * 1024 * 1024
"""A larger cell is a quote left open, which would otherwise swallow the rest of the file."""


class CsvSource:
    """Header names are stripped of the spaces around them. Blank lines are skipped. A row with
    more or fewer cells than the header is a bad line, and so is a wrong quote."""

    name = "csv"
    endings = (".csv", ".tsv", ".tab")

    def recognises(self, head: bytes) -> bool:
        first = head.lstrip().split(b"\n", 1)[0]
        if first[:1] in (b"{", b"[", b"") or first.translate(None, _BINARY) != first:
            return False
        return any(d.encode() in first for d in DELIMITERS)

    def rows(self, opened: Opened, options: ReadOptions) -> Rows:
        csv.field_size_limit(MAX_CELL_CHARS)
        feed = _Feed(opened)
        first = feed.first()
        skipped = next((n for n, line in enumerate(first) if line.strip()), len(first))
        announced = _announced(first[skipped:])
        skipped += announced is not None
        first = first[skipped:]
        delimiter = (
            delimiter_named(options.delimiter) or announced or _delimiter(first, options.wanted)
        )
        reader = csv.reader(chain(first, feed.rest()), delimiter=delimiter, strict=True)
        try:
            columns = tuple(name.strip() for name in next(reader, []))
        except csv.Error as error:
            where = f"{opened.name}: line {skipped + 1}"
            raise BadSource(f"{where}: the header: {_reason(error)}") from error
        reading = _Reading(feed, reader, columns, skipped)
        if (reason := reading.wrong_within(1)) is not None:
            raise BadSource(f"{opened.name}: the header: {reason}")
        _refuse_twins(columns, options, opened.name)
        return Rows(columns, reading.batches(), f"delimiter {delimiter!r}")


SOURCE = CsvSource()


class _Feed:
    """The lines of a file as text, for csv.reader. Knows which lines hold wrong bytes."""

    def __init__(self, opened: Opened) -> None:
        self._codec, self._errors = opened.codec, opened.errors
        self._chunks = opened.chunks()
        self._line = 0
        self.chunks_taken = 0
        self.wrong: dict[int, str] = {}
        """Line number to what is wrong with it."""

    def first(self) -> list[str]:
        """The lines of the first chunk; none where the file is empty."""
        chunk = next(self._chunks, None)
        return [] if chunk is None else self._decoded(chunk)

    def rest(self) -> Iterator[str]:
        """The lines after the first chunk, decoded as they are asked for."""
        return chain.from_iterable(map(self._decoded, self._chunks))

    def _decoded(self, chunk: Chunk) -> list[str]:
        self.chunks_taken += 1
        result: list[str] = []
        offset = chunk.offset
        for raw in chunk.lines:
            self._line += 1
            try:
                result.append(raw.decode(self._codec, self._errors))
            except UnicodeDecodeError as error:
                self.wrong[self._line] = wrong_text(error, offset + error.start, self._codec)
                result.append(raw.decode(self._codec, "replace"))
            offset += len(raw)
        return result


class _Reading:
    """Rows from csv.reader, with the line on which each begins."""

    def __init__(self, feed: _Feed, reader: Reader, columns: tuple[str, ...], skipped: int) -> None:
        self._feed = feed
        self._reader = reader
        self._columns = columns
        self._skipped = skipped
        """Lines of the file that the reader never saw."""

    def batches(self) -> Iterator[Batch]:
        batch: Batch = []
        taken = self._feed.chunks_taken
        reader, columns, wrong = self._reader, self._columns, self._feed.wrong
        width = len(columns)
        while True:
            line = reader.line_num + self._skipped + 1
            try:
                cells = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                batch.append(BadLine(line, _reason(error)))
                continue
            if wrong and (reason := self.wrong_within(line)) is not None:
                batch.append(BadLine(line, reason))
            elif len(cells) == width:
                batch.append(Row(line, dict(zip(columns, cells, strict=True))))
            elif cells and (len(cells) > 1 or cells[0].strip()):
                batch.append(BadLine(line, _ragged(len(cells), width)))
            if self._feed.chunks_taken != taken:
                taken = self._feed.chunks_taken
                yield batch
                batch = []
        yield batch

    def wrong_within(self, first: int) -> str | None:
        """What is wrong with the record that begins on line `first` and was just read."""
        last = self._reader.line_num + self._skipped
        found = [line for line in self._feed.wrong if line <= last]
        reasons = [self._feed.wrong.pop(line) for line in found]
        return next((r for line, r in zip(found, reasons, strict=True) if line >= first), None)


def _announced(header: Sequence[str]) -> str | None:
    """The delimiter from Excel's first line `sep=;`, None where there is no such line."""
    first = header[0].rstrip("\r\n") if header else ""
    return first[4] if len(first) == 5 and first.lower().startswith("sep=") else None


def _delimiter(header: Sequence[str], wanted: Sequence[str]) -> str:
    """The delimiter under which the header has the wanted columns, else that with most columns."""

    def fitness(delimiter: str) -> tuple[int, int]:
        try:
            names = [n.strip() for n in next(csv.reader(header, delimiter=delimiter), [])]
        except csv.Error:
            return (0, 0)
        return (sum(name in names for name in wanted), len(names))

    return max(DELIMITERS, key=fitness)


def _refuse_twins(columns: tuple[str, ...], options: ReadOptions, name: str) -> None:
    """A column that is used must be there once. Without chosen fields every column is used."""
    whole = options.text_field is None and not options.fields
    for column in columns:
        if columns.count(column) > 1 and (whole or column in options.wanted):
            raise BadSource(f"{name}: the column {column!r} is there twice; rename one of them")


def _ragged(cells: int, columns: int) -> str:
    return f"{cells} cell{'s' * (cells != 1)} where the header has {columns}"


def _reason(error: csv.Error) -> str:
    said = str(error)
    if said.startswith("field larger"):
        return f"a cell is longer than {MAX_CELL_CHARS:,} characters; is a quote left open?"
    if said.startswith("unexpected end"):
        return "a quote is opened in this record and never closed"
    if said.startswith("new-line"):
        return "a carriage return stands alone outside quotes; save with LF or CRLF line ends"
    return f"not CSV: {said}; write a quote inside a cell as two"
