"""A query on a database, through SQLAlchemy: rows by a server-side cursor, or by keyset pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, Final

import psycopg
from sqlalchemy import (
    ColumnElement,
    Connection,
    CursorResult,
    Engine,
    bindparam,
    create_engine,
    inspect,
    literal_column,
    select,
    text,
)
from sqlalchemy.exc import (
    DBAPIError,
    NoSuchModuleError,
    NoSuchTableError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.pool import NullPool

from app.errors import BadSource, DatabaseUnavailable, MissingPart, UsageError
from app.storage.sources.base import Asked, Batch, ReadOptions, Rows
from app.storage.sources.columns import check_columns
from app.storage.sources.urls import file_of, masked_url, parsed, place_parts
from app.storage.sources.values import plain_rows
from app.storage.sources.words import refuse_words_of_files

BATCH_ROWS: Final = 1000
PAGE_ROWS: Final = 10_000
_OURS: Final = ("authentication failed", "does not exist", "pg_hba.conf", "permission denied")
_DATA: Final = "22"
"""The class of SQLSTATE for values that are wrong."""
_QUOTED: Final = re.compile(r'"[^"]*"')


class SqlPlace:
    """A query or a table by URL. Only read: the transaction is read-only and never committed."""

    path = None
    whole = True

    def __init__(self, asked: Asked) -> None:
        self._url = parsed(asked.uri)
        self._uri = asked.uri
        self._query = asked.query.strip().rstrip(";").strip() if asked.query is not None else None
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
                    _reading(engine) as connection,
                    closing(self._selection(connection, options)) as found,
                ):
                    columns = tuple(found.keys())
                    batches = self._batches(found.partitions(BATCH_ROWS), columns, options)
                    yield Rows(columns, batches, "sql", chosen=True)

    def _selection(self, connection: Connection, options: ReadOptions) -> CursorResult[Any]:
        """The rows, still on the server."""
        statement = self._selected(connection.engine)
        if options.where is not None:
            statement = f"SELECT * FROM ({statement}) giveway_source WHERE ({options.where})"
        if (wrong := _refused(connection, statement)) is not None:
            raise BadSource(f"{self.shown_as}: {wrong}")
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
        pages = self._pages(engine, options)
        with self._named():
            columns, first = next(pages)

        def batches() -> Iterator[Batch]:
            number = 0
            page = first
            with self._named():
                while page:
                    yield plain_rows(columns, page, options.text_field, number)
                    number += len(page)
                    _, page = next(pages)

        return Rows(columns, batches(), "sql by keyset", chosen=True)

    def _pages(
        self, engine: Engine, options: ReadOptions
    ) -> Iterator[tuple[tuple[str, ...], Sequence[Any]]]:
        """Columns with the rows of each page, the last page empty."""
        column: ColumnElement[Any] = literal_column(
            engine.dialect.identifier_preparer.quote(options.id_field or "")
        )
        source = text(f"({_unbound(self._selected(engine))}) giveway_source")
        query = select(text("*")).select_from(source).order_by(column).limit(PAGE_ROWS)
        if options.where is not None:
            query = query.where(text(f"({_unbound(options.where)})"))
        # Rows without an id have no place in the order: they come last, to be named as bad lines.
        without = query.where(column.is_(None))
        query = query.where(column.is_not(None))
        asked = query
        while True:
            with _reading(engine) as connection:
                found = connection.execute(asked)
                columns = tuple(found.keys())
                page = found.all()
            if page:
                check_columns(self.shown_as, options.wanted, columns)
                yield columns, page
            if asked is without:
                yield columns, ()
                return
            last = page[-1][columns.index(options.id_field or "")] if page else None
            asked = query.where(column > bindparam("after", last)) if page else without

    def _selected(self, engine: Engine) -> str:
        if self._query is not None:
            return self._query
        quote = engine.dialect.identifier_preparer.quote
        return "SELECT * FROM " + ".".join(quote(part) for part in (self._table or "").split("."))

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
        how = _CONNECT.get(self._url.drivername, {})
        engine = create_engine(
            self._url,
            poolclass=NullPool,
            hide_parameters=True,
            connect_args=how,
        )
        try:
            yield engine
        finally:
            engine.dispose()

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
            if getattr(error.orig, "sqlstate", None) == _CUT_OFF:
                raise BadSource(
                    f"{self.shown_as}: {said(error)}; give the role a longer statement_timeout, or "
                    "read by pages with --keyset"
                ) from None
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

_READ_ONLY: Final[Mapping[str, str]] = {
    "mysql": "SET SESSION TRANSACTION READ ONLY",
    "mariadb": "SET SESSION TRANSACTION READ ONLY",
    "sqlite": "PRAGMA query_only = ON",
}
_CONNECT: Final[Mapping[str, dict[str, Any]]] = {
    "postgresql+psycopg": {
        "connect_timeout": 10,
        "application_name": "giveway source",
        # A pooler between us may give the next transaction another connection.
        "prepare_threshold": None,
    },
}


_CUT_OFF: Final = "57014"
"""A statement that took longer than the role, the database or the server allows."""


@contextmanager
def _reading(engine: Engine) -> Iterator[Connection]:
    """A connection in a read-only transaction, as far as the database has such; never committed."""
    backend = engine.dialect.name
    with engine.connect() as connection:
        if backend == "postgresql":
            connection.execution_options(postgresql_readonly=True)
        elif backend in _READ_ONLY:
            connection.exec_driver_sql(_READ_ONLY[backend])
            connection.commit()
        yield connection
        connection.rollback()


def _refused(connection: Connection, statement: str) -> str | None:
    """Why Postgres refuses it as one statement, before anything of it runs: a COMMIT among several
    would end the read-only transaction. Drivers of other databases refuse several themselves."""
    raw = connection.connection.driver_connection
    if isinstance(raw, psycopg.Connection):
        found = raw.pgconn.prepare(b"", statement.encode())
        if found.status == psycopg.pq.ExecStatus.FATAL_ERROR:
            message = found.error_message.decode("utf-8", "replace")
            return message.splitlines()[0].removeprefix("ERROR:").strip()
    return None


def _unbound(statement: str) -> str:
    """`statement` for `text()`, in which a colon would begin a parameter."""
    return statement.replace(":", "\\:")


def is_away(error: DBAPIError, backend: str) -> bool:
    """Whether it is the server that does not answer, rather than the question that is wrong."""
    if error.connection_invalidated:
        return True
    if backend != "postgresql" or not isinstance(error, OperationalError):
        return False
    return not any(part in str(error.orig) for part in _OURS)


def said(error: DBAPIError) -> str:
    """The first line of what the database said. What it quotes of the data is left out."""
    lines = str(error.orig).strip().splitlines() or [type(error).__name__]
    state = getattr(error.orig, "sqlstate", None) or ""
    return _QUOTED.sub('"…"', lines[0]) if state.startswith(_DATA) else lines[0]
