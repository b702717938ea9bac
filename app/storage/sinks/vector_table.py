"""Vectors into a table of the user's own Postgres: COPY into a temporary table, then an upsert."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

import psycopg
from numpy.typing import NDArray
from pgvector.psycopg import register_vector
from psycopg import sql

from app.errors import DatabaseUnavailable, UsageError
from app.storage.sources.sql_reading import postgres_is_away
from app.storage.sources.urls import masked_url

_ROWS_A_BATCH: Final = 5_000
_NUMBERS_A_BATCH: Final = 4_000_000


class Vector(NamedTuple):
    """One vector: the item's key, the piece of its text (0: the first, or all of it)."""

    key: str
    piece: int
    numbers: NDArray[Any]


@dataclass(frozen=True, slots=True)
class Target:
    """Where vectors go. `table` may have its schema before it. `piece_column` None: the table has
    one row an item. `create`: make the table if it is not there. `only_existing`: rows that the
    table lacks are left out, for a table whose other columns we could not fill."""

    url: str
    table: str
    id_column: str = "id"
    vector_column: str = "embedding"
    piece_column: str | None = None
    create: bool = False
    only_existing: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """`missing`: vectors whose rows the table lacks, left out."""

    rows: int
    missing: int


class VectorTable:
    """A table that takes vectors of `dimension` numbers."""

    def __init__(self, target: Target, dimension: int) -> None:
        self._target = target
        self._dimension = dimension
        self._table = sql.Identifier(*target.table.split("."))
        self._id = sql.Identifier(target.id_column)
        self._vector = sql.Identifier(target.vector_column)
        self._piece = sql.Identifier(target.piece_column) if target.piece_column else None

    def write(self, vectors: Iterable[Vector]) -> Iterator[Written]:
        """Insert or replace all of `vectors`, a transaction a batch: done again, it changes
        nothing. What was written so far, after each batch.

        UsageError: the table is not there, or lacks a column, or wants another dimension.
        """
        rows, missing = 0, 0
        size = max(1, min(_ROWS_A_BATCH, _NUMBERS_A_BATCH // self._dimension))
        with self._connected() as connection:
            types = self._types(connection)
            rest = iter(vectors)
            while batch := list(islice(rest, size)):
                with self._said(), connection.transaction():
                    done = self._batch(connection, types, batch)
                rows, missing = rows + done, missing + len(batch) - done
                yield Written(rows, missing)

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        target = self._target
        if not target.url.startswith(("postgresql://", "postgres://")):
            raise UsageError("vectors go to Postgres with pgvector: --to postgresql://…")
        shown = masked_url(target.url)
        try:
            connection = psycopg.connect(
                target.url, connect_timeout=10, application_name="giveway", autocommit=True
            )
        except psycopg.OperationalError as error:
            said = str(error).strip().splitlines()[0]
            if postgres_is_away(error):
                raise DatabaseUnavailable(f"{shown} does not answer: {said}") from None
            raise UsageError(f"{shown}: {said}") from None
        with connection:
            yield connection

    @contextmanager
    def _said(self) -> Iterator[None]:
        """What Postgres refuses, in one line and without the row it quotes."""
        shown = f"{masked_url(self._target.url)}, table {self._target.table}"
        try:
            yield
        except psycopg.errors.NotNullViolation as error:
            raise UsageError(
                f"{shown}: {error.diag.message_primary}; with --only-existing, rows that the table "
                "lacks are left out"
            ) from None
        except psycopg.Error as error:
            refusal = DatabaseUnavailable if postgres_is_away(error) else UsageError
            raise refusal(f"{shown}: {error.diag.message_primary or error}") from None

    def _types(self, connection: psycopg.Connection[Any]) -> dict[str, str]:
        """The type of each column that is written, as SQL has it; the table is made if need be."""
        target = self._target
        with self._said():
            if target.create:
                connection.execute(self._creation())
            try:
                register_vector(connection)
            except psycopg.ProgrammingError:
                raise UsageError(
                    f"{masked_url(target.url)}: the extension pgvector is not there; a database "
                    "administrator makes it with: CREATE EXTENSION vector"
                ) from None
            found = connection.execute(_COLUMNS, [self._table.as_string(connection)]).fetchall()
        types = dict(found)
        if not types:
            raise UsageError(
                f"{masked_url(target.url)}: no table {target.table}; --create makes it"
            )
        wanted = [target.id_column, target.vector_column]
        for column in [*wanted, *([target.piece_column] if target.piece_column else [])]:
            if column not in types:
                raise UsageError(
                    f"table {target.table} has no column {column!r}; columns: {', '.join(types)}"
                )
        self._check_vector(types[target.vector_column])
        return types

    def _check_vector(self, said: str) -> None:
        kind, _, number = said.rpartition(".")[2].rstrip(")").partition("(")
        if kind not in ("vector", "halfvec"):
            raise UsageError(
                f"column {self._target.vector_column!r} of {self._target.table} is {said}, not "
                "vector or halfvec"
            )
        if number and int(number) != self._dimension:
            raise UsageError(
                f"column {self._target.vector_column!r} of {self._target.table} takes vectors of "
                f"{number} numbers; these have {self._dimension}"
            )

    def _creation(self) -> sql.Composed:
        piece = sql.SQL("")
        key = self._id
        keys: sql.Composable = key
        if self._piece is not None:
            piece = sql.SQL("{} integer NOT NULL, ").format(self._piece)  # type: ignore[assignment]
            keys = sql.SQL("{}, {}").format(key, self._piece)
        return sql.SQL(
            "CREATE TABLE IF NOT EXISTS {} ({} text NOT NULL, {}{} vector({}) NOT NULL, "
            "PRIMARY KEY ({}))"
        ).format(self._table, key, piece, self._vector, sql.Literal(self._dimension), keys)

    def _batch(
        self, connection: psycopg.Connection[Any], types: dict[str, str], batch: list[Vector]
    ) -> int:
        """How many of `batch` are in the table now."""
        connection.execute(_STAGE)
        with (
            connection.cursor() as cursor,
            cursor.copy("COPY giveway_vectors FROM STDIN (FORMAT BINARY)") as copy,
        ):
            copy.set_types(["text", "int4", "vector"])
            for one in batch:
                copy.write_row(one)
        same, names, values = self._mapping(types)
        vector = sql.SQL("CAST(s.vector AS {})").format(sql.SQL(types[self._target.vector_column]))
        done = connection.execute(
            sql.SQL("UPDATE {} AS t SET {} = {} FROM giveway_vectors s WHERE {}").format(
                self._table, self._vector, vector, same
            )
        ).rowcount
        if self._target.only_existing:
            return done
        return (
            done
            + connection.execute(
                sql.SQL(
                    "INSERT INTO {} ({}, {}) SELECT {}, {} FROM giveway_vectors s "
                    "WHERE NOT EXISTS (SELECT FROM {} AS t WHERE {})"
                ).format(self._table, names, self._vector, values, vector, self._table, same)
            ).rowcount
        )

    def _mapping(
        self, types: dict[str, str]
    ) -> tuple[sql.Composable, sql.Composable, sql.Composable]:
        """Which rows are the same, the columns that say so, and their values."""
        pairs = [(self._id, "key", types[self._target.id_column])]
        if self._piece is not None and self._target.piece_column is not None:
            pairs.append((self._piece, "piece", types[self._target.piece_column]))
        values = [
            sql.SQL("CAST(s.{} AS {})").format(sql.Identifier(name), sql.SQL(type_))
            for _, name, type_ in pairs
        ]
        columns = [column for column, _, _ in pairs]
        same = [
            sql.SQL("t.{} = {}").format(column, value)
            for column, value in zip(columns, values, strict=True)
        ]
        comma = sql.SQL(", ")
        return sql.SQL(" AND ").join(same), comma.join(columns), comma.join(values)


_STAGE: Final = """
    CREATE TEMP TABLE giveway_vectors (key text, piece integer, vector vector) ON COMMIT DROP
"""
_COLUMNS: Final = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
    WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
