"""Exporting: what was made, as a file or in somebody's own table, streamed."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from app.domain.flattening import Kind
from app.domain.jobs import Job
from app.errors import UsageError
from app.services import made
from app.services.items import Told, untold
from app.services.kept import check_kept
from app.storage.database import Database
from app.storage.sinks.base import NO_KINDS, Kinds
from app.storage.sinks.registry import choose
from app.storage.sinks.vector_table import Target, Vector, VectorTable, Written
from app.storage.sinks.writing import check_output, whole

RESULTS = ("key", "status", "code", "error", "tokens", "output")
"""Columns of a job's results."""

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("key", "status", "code", "error"), "text"),
    "tokens": "int",
}

Rows = Generator[Mapping[str, Any], None, None]


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: the format, and how much."""

    format: str
    rows: int
    size_bytes: int


def check_file(output: str, format: str | None, *, force: bool) -> None:  # noqa: A002
    """UsageError, UnknownName: no rows can be written into `output`; see `check_output`."""
    choose(output, format)
    check_output(output, force=force)


class Exporting:
    """The use case behind `giveway results` and `giveway export`. Reads only, of us."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def results(
        self,
        job: Job,
        output: str,
        format: str | None = None,  # noqa: A002
        told: Told = untold,
    ) -> Exported:
        """A job's results so far, in order, into the file `output`; `-` is standard output.

        `format` None: by the file's ending, else JSONL. The file is there as a whole or not at all.
        A format of columns has one for each field of the output: `output.text`. StateConflict: they
        are no longer kept.
        """
        check_kept(job)
        if choose(output, format).columnar:
            with made.flat_results(self._database, job) as (kinds, rows):
                names = [*RESULTS[:-1], *kinds]
                return _written(rows, names, output, format, told, _KINDS | kinds)
        return _written(made.results(self._database, job.id), RESULTS, output, format, told)

    def vectors(self, collection: str) -> Rows:
        """A collection's vectors as rows: key, piece, hash, model, vector. NotFound: no such."""
        for key, piece, content_hash, model, vector in made.vectors(self._database, collection):
            # Stored as 32-bit floats: written as such they take half the digits.
            numbers = np.asarray(vector, dtype=np.float32)
            yield {
                "key": key,
                "piece": piece,
                "hash": content_hash,
                "model": model,
                "vector": numbers,
            }

    def collection(
        self,
        name: str,
        output: str,
        format: str | None = None,  # noqa: A002
        told: Told = untold,
    ) -> Exported:
        """A collection's vectors into the file `output`, as `results`; `piece` where texts were
        split. NotFound: no such collection."""
        columns = ["key", "hash", "model", "vector"]
        if made.has_pieces(self._database, name):
            columns.insert(1, "piece")
        return _written(self.vectors(name), columns, output, format, told)

    def into_table(self, name: str, target: Target, told: Told = untold) -> Written:
        """A collection's vectors into a table of somebody's Postgres; done again, nothing changes.

        UsageError: the table cannot take them. NotFound: no such collection.
        """
        if target.piece_column is None and made.has_pieces(self._database, name):
            raise UsageError(
                f"texts of {name!r} were split: name the column that tells their pieces apart "
                "with --piece-column"
            )
        done = Written(0, 0)
        with closing(made.vectors(self._database, name)) as rows:
            first = next(rows, None)
            if first is not None:
                table = VectorTable(target, len(first[-1]))
                for done in table.write(_numbers(chain([first], rows))):
                    told(done.rows + done.missing)
        return done


def _numbers(rows: Iterator[tuple[str, int, bytes, str, list[float]]]) -> Iterator[Vector]:
    for key, piece, _, _, numbers in rows:
        yield Vector(key, piece, np.asarray(numbers, dtype=np.float32))


def _closed(rows: Iterator[Any]) -> AbstractContextManager[Any]:
    return closing(rows) if isinstance(rows, Generator) else nullcontext()


def _written(
    rows: Iterator[Mapping[str, Any]],
    columns: Sequence[str],
    output: str,
    format_: str | None,
    told: Told,
    kinds: Kinds = NO_KINDS,
) -> Exported:
    sink = choose(output, format_)
    count, size_bytes = 0, 0
    with _closed(rows), whole(output) as stream:
        for block, rows_in_it in sink.blocks(rows, columns, kinds):
            stream.write(block)
            count += rows_in_it
            size_bytes += len(block)
            told(count)
    return Exported(sink.name, count, size_bytes)
