"""Connections that only read a database: what runs on them, and what is said of what does not."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg.abc import AdaptContext
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from app.storage.sources.base import Unreadable
from app.storage.sources.wrong_bytes import wrong_byte

_OURS: Final = (
    "authentication failed",
    "does not exist",
    "no password supplied",
    "not permitted to log in",
    "permission denied",
    "pg_hba.conf",
)
"""What a server says that lets nobody in, which comes without an SQLSTATE."""
_AWAY: Final = ("08", "57P01", "57P02", "57P03", "53300")
"""SQLSTATEs, or their beginnings, of a server that is not there: connections that break, and a
server that shuts down, has crashed, starts, or has no place left."""
_DATA: Final = "22"
"""The class of SQLSTATE for values that are wrong."""
_QUOTED: Final = re.compile(r'"[^"]*"')
_REMEDIES: Final[Mapping[str, str]] = {
    "57014": "; is it the statement_timeout of the role or the database? Have it raised for this "
    "role, or read by pages with --keyset",
    "25P03": "; have idle_in_transaction_session_timeout raised for this role, or read by pages "
    "with --keyset",
    "25P04": "; have transaction_timeout raised for this role, or read by pages with --keyset",
    "40001": "; if it is a replica, read by pages with --keyset",
}
"""What helps, by SQLSTATE."""
_READ_ONLY: Final[Mapping[str, str]] = {
    "mysql": "SET SESSION TRANSACTION READ ONLY",
    "mariadb": "SET SESSION TRANSACTION READ ONLY",
}
_CONNECT: Final[Mapping[str, dict[str, Any]]] = {
    "postgresql+psycopg": {
        "connect_timeout": 10,
        "application_name": "giveway source",
        # A pooler between us may give the next transaction another connection.
        "prepare_threshold": None,
    },
}
_ASKING: Final = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)
"""What a SELECT of SQLite consists of."""
_TELLING: Final = frozenset(
    {
        "data_version",
        "foreign_key_list",
        "index_info",
        "index_list",
        "index_xinfo",
        "table_info",
        "table_list",
        "table_xinfo",
    }
)
"""Pragmas of SQLite that only tell; SQLAlchemy and full-text tables ask them."""
_TIMES: Final = {
    "date": "a date",
    "timestamp": "a time",
    "timestamptz": "a time",
    "interval": "a length of time",
}
"""Types whose values may be infinite, or beyond what Python counts."""
_TEXTS: Final = ("time", "timetz")
"""Types of which Python lacks one value: 24:00, which ISO 8601 writes so too."""
_DOCUMENTS: Final = ("json", "jsonb")
"""Types whose values may be nested deeper than Python reads."""


@contextmanager
def engine_for(url: URL) -> Iterator[Engine]:
    """An engine whose connections do nothing but read, as far as the database can be told so."""
    engine = create_engine(
        url,
        poolclass=NullPool,
        hide_parameters=True,
        connect_args=_CONNECT.get(url.drivername, {}),
    )
    event.listen(engine, "connect", _prepare)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
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


def is_away(error: DBAPIError, backend: str) -> bool:
    """Whether it is the server that does not answer, rather than the question that is wrong."""
    if _state(error.orig):
        return postgres_is_away(error.orig)
    if error.connection_invalidated:
        return True
    return backend == "postgresql" and postgres_is_away(error.orig)


def postgres_is_away(error: BaseException | None) -> bool:
    """The same of what psycopg raised. Who may not come in, and whose time is up, had an answer."""
    if not isinstance(error, psycopg.OperationalError):
        return False
    if state := _state(error):
        return state.startswith(_AWAY)
    return not any(part in str(error) for part in _OURS)


def said(error: DBAPIError) -> str:
    """The first line of what the database said, and what helps. What it quotes of the data is left
    out."""
    lines = str(error.orig).strip().splitlines() or [type(error).__name__]
    state = _state(error.orig)
    if state.startswith(_DATA):
        return _QUOTED.sub('"…"', lines[0])
    if getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_AUTH:
        return f"{lines[0]}: only a SELECT is run"
    return lines[0] + _REMEDIES.get(state, "")


def _state(error: BaseException | None) -> str:
    """The SQLSTATE; empty where there is none."""
    state = getattr(error, "sqlstate", None)
    return state if isinstance(state, str) else ""


def _prepare(connection: Any, record: object) -> None:  # noqa: ARG001 - how SQLAlchemy calls it
    if isinstance(connection, sqlite3.Connection):
        connection.text_factory = _text
        connection.set_authorizer(_authorized)
    elif isinstance(connection, psycopg.Connection):
        for name in (*_TIMES, *_TEXTS, *_DOCUMENTS):
            _tolerate(connection, name)


def _authorized(
    action: int, first: str | None, second: str | None, database: str | None, by: str | None
) -> int:
    """Whether SQLite may do so; it asks before anything runs. ATTACH and VACUUM INTO would make
    files, and query_only could be switched off again."""
    del database, by
    if action == sqlite3.SQLITE_FUNCTION:
        allowed = second != "load_extension"
    elif action == sqlite3.SQLITE_PRAGMA:
        allowed = first in _TELLING
    else:
        allowed = action in _ASKING
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _text(value: bytes) -> str:
    """A text of SQLite, which keeps whatever bytes it was given."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        return Unreadable(wrong_byte(error, error.start))


def _tolerate(connection: psycopg.Connection[Any], name: str) -> None:
    """Values of the type `name` that Python has none for do not end the reading."""
    found = connection.adapters.types[name]
    inner = connection.adapters.get_loader(found.oid, psycopg.pq.Format.TEXT)
    if inner is None:
        return
    known = inner  # For mypy, which forgets it inside the class.

    class Tolerant(psycopg.adapt.Loader):
        def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
            super().__init__(oid, context)
            self._load = known(oid, context).load

        def load(self, data: Any) -> Any:
            try:
                return self._load(data)
            except (psycopg.DataError, ValueError, OverflowError, RecursionError):
                return _without_value(name, bytes(data).decode("utf-8", "replace"))

    connection.adapters.register_loader(name, Tolerant)


def _without_value(name: str, written: str) -> str:
    """What stands for a value of the type `name` that Python has none for."""
    if name in _TEXTS:
        return written
    if name in _DOCUMENTS:
        return Unreadable("nested too deeply")
    if written.endswith("infinity"):
        return Unreadable(f"{written}, which is not {_TIMES[name]} that can be kept")
    return Unreadable(f"{_TIMES[name]} that is too long ago, too far ahead or too long")
