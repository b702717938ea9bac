"""A query on a database, through SQLAlchemy: rows by a server-side cursor, or by keyset pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import psycopg
from sqlalchemy import Connection, CursorResult, Engine, inspect
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, NoSuchTableError, SQLAlchemyError

from app.errors import BadSource, DatabaseUnavailable, MissingPart, UsageError
from app.storage.sources.base import Asked, Batch, ReadOptions, Rows
from app.storage.sources.columns import check_columns, needed
from app.storage.sources.sql_pages import Selection, pages
from app.storage.sources.sql_reading import engine_for, is_away, reading, said
from app.storage.sources.sql_statement import as_table, without_end
from app.storage.sources.urls import file_of, masked_url, parsed, place_parts
from app.storage.sources.values import plain_rows
from app.storage.sources.words import refuse_words_of_files

BATCH_ROWS: Final = 1000


class SqlPlace:
    """A query or a table by URL. Only read: the transaction is read-only and never committed."""

    path = None
    whole = True

    def __init__(self, asked: Asked) -> None:
        self._url = parsed(asked.uri)
        self._uri = asked.uri
        backend = self._url.get_backend_name()
        self._query = None if asked.query is None else without_end(asked.query, backend).strip()
        if self._query == "":
            raise UsageError(f"{masked_url(asked.uri)}: --query holds no statement")
        self._table = asked.table
        self._keyset = asked.keyset
        self.shown_as = masked_url(asked.uri)

    def identity(self) -> tuple[str, ...]:
        """Server, database, and the query or table."""
        what = ("query", self._query) if self._query is not None else ("table", self._table or "")
        return ("sql", *place_parts(self._uri), *map(str, what))

    def check(self, options: ReadOptions) -> None:
        """What only files have; a query without an id, since its rows have no number that stays."""
        refuse_words_of_files(options, self.shown_as, "database")
        if options.id_field is None and self._table is None:
            raise self._wants_id()

    def fitted(self, options: ReadOptions) -> ReadOptions:
        """A table's primary key is the id where none is chosen and it is one column."""
        self.check(options)
        if options.id_field is not None:
            return options
        key = self._primary_key()
        if len(key) != 1:
            raise self._wants_id()
        return replace(options, id_field=key[0])

    def _wants_id(self) -> UsageError:
        return UsageError(
            f"{self.shown_as}: name the column that tells rows apart with --id-field; "
            "rows of a query have no order that stays"
        )

    @contextmanager
    def rows(self, options: ReadOptions) -> Iterator[Rows]:
        """The rows as they stand at one moment; with keyset pages, each page at its own."""
        with self._named(), self._engine() as engine:
            if self._keyset:
                yield self._by_pages(engine, options)
            else:
                with (
                    reading(engine) as connection,
                    closing(self._cursor(connection, options)) as found,
                ):
                    columns = tuple(found.keys())
                    batches = self._batches(found.partitions(BATCH_ROWS), columns, options)
                    yield Rows(columns, batches, "sql", chosen=True)

    def _cursor(self, connection: Connection, options: ReadOptions) -> CursorResult[Any]:
        """The rows, still on the server."""
        chosen = self._selection(connection, options)
        statement = chosen.statement(connection.engine)
        if self._query is not None and chosen.columns is None and chosen.where is None:
            statement = self._query
        self._describe(connection, statement)
        return connection.execution_options(
            stream_results=True, max_row_buffer=BATCH_ROWS, no_parameters=True
        ).exec_driver_sql(statement)

    def _batches(
        self, parts: Iterator[Sequence[Any]], columns: tuple[str, ...], options: ReadOptions
    ) -> Iterator[Batch]:
        number = 0
        with self._named():
            for part in parts:
                yield plain_rows(columns, part, options.text_field, number)
                number += len(part)

    def _by_pages(self, engine: Engine, options: ReadOptions) -> Rows:
        with reading(engine) as connection:
            chosen = self._selection(connection, options)
        found = pages(engine, chosen, options.id_field or "")
        columns, first = next(found)
        check_columns(self.shown_as, options.wanted, columns)

        def batches() -> Iterator[Batch]:
            number = 0
            with self._named():
                for _, page in chain([(columns, first)], found):
                    if page:
                        yield plain_rows(columns, page, options.text_field, number)
                    number += len(page)

        return Rows(columns, batches(), "sql by keyset", chosen=True)

    def _selection(self, connection: Connection, options: ReadOptions) -> Selection:
        """What is to be read. A column that nobody asked for is not: it may hold what cannot be
        read, or may not be read."""
        engine = connection.engine
        if self._query is None:
            quote = engine.dialect.identifier_preparer.quote
            table = ".".join(quote(part) for part in (self._table or "").split("."))
            columns = self._describe(connection, f"SELECT * FROM {table}")
        else:
            table = as_table(self._query)
            columns = self._describe(connection, self._query)
        if columns is not None:
            check_columns(self.shown_as, options.wanted, columns)
        return Selection(needed(columns, options), table, options.where)

    def _describe(self, connection: Connection, statement: str) -> tuple[str, ...] | None:
        """The columns that `statement` gives, without running it; None: not known before it runs.

        BadSource: it is not one statement. A COMMIT among several would end the read-only
        transaction; drivers of other databases than Postgres refuse several themselves.
        """
        raw = connection.connection.driver_connection
        if not isinstance(raw, psycopg.Connection):
            if self._query is not None:
                return None
            return tuple(connection.exec_driver_sql(f"{statement} WHERE 1 = 0").keys())
        connection.exec_driver_sql("SELECT")  # A pooler gives one server to one transaction.
        found = raw.pgconn.prepare(b"", statement.encode())
        if found.status != psycopg.pq.ExecStatus.FATAL_ERROR:
            found = raw.pgconn.describe_prepared(b"")
        if found.status == psycopg.pq.ExecStatus.FATAL_ERROR:
            message = found.error_message.decode("utf-8", "replace")
            wrong = message.splitlines()[0].removeprefix("ERROR:").strip()
            raise BadSource(f"{self.shown_as}: {wrong}")
        return tuple((found.fname(n) or b"").decode() for n in range(found.nfields))

    def _primary_key(self) -> tuple[str, ...]:
        schema, _, table = (self._table or "").rpartition(".")
        with self._named(), self._engine() as engine:
            return tuple(
                inspect(engine).get_pk_constraint(table, schema or None)["constrained_columns"]
            )

    @contextmanager
    def _engine(self) -> Iterator[Engine]:
        file = file_of(self._url)
        if file is not None and not file.is_file():  # SQLite would make an empty one.
            raise BadSource(f"{self.shown_as}: no file {file}")
        with engine_for(self._url) as engine:
            yield engine

    @contextmanager
    def _named(self) -> Iterator[None]:
        """What the database says, with the place's name and without its password."""
        try:
            yield
        except (ModuleNotFoundError, NoSuchModuleError) as error:
            raise MissingPart(
                f"{self.shown_as}: no driver for {self._url.drivername}:// is installed here; "
                "install one, such as pymysql for mysql+pymysql://"
            ) from error
        except DBAPIError as error:
            if is_away(error, self._url.get_backend_name()):
                raise DatabaseUnavailable(
                    f"the source {self.shown_as} does not answer: {said(error)}"
                ) from None
            raise BadSource(f"{self.shown_as}: {said(error)}") from None
        except NoSuchTableError as error:
            raise BadSource(f"{self.shown_as}: no table {str(error)!r}") from None
        except SQLAlchemyError as error:
            raise BadSource(f"{self.shown_as}: {str(error).splitlines()[0]}") from None


class SqlOrigin:
    """Whatever has a scheme that SQLAlchemy may know."""

    name = "sql"

    def claims(self, asked: Asked) -> bool:
        """`scheme://…`."""
        return "://" in asked.uri

    def place(self, asked: Asked) -> SqlPlace:
        """The query on that database."""
        if (asked.query is None) == (asked.table is None):
            said = "not both" if asked.query else "such as --query 'select id, body from docs'"
            raise UsageError(f"{masked_url(asked.uri)}: give --query or --table, {said}")
        return SqlPlace(asked)


ORIGIN = SqlOrigin()
