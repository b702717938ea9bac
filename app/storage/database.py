"""The one way to Postgres: an engine made on first use, per process, and short transactions."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import psycopg
from psycopg.rows import dict_row
from sqlalchemy import Connection, Engine, TextClause, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionLeft

from app import clock
from app.errors import DatabaseUnavailable

T = TypeVar("T")
Rows = list[dict[str, Any]]

_IDLE_IN_TRANSACTION_S = 30
_OWN_S = 30.0
"""How long a thread waits for one of this process's connections."""
_KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
"""A connection on which nothing is said for long is known to be there, or ends, within a minute."""
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


def sqlalchemy_url(url: str) -> str:
    """`url` with the driver named: postgresql:// and postgres:// become postgresql+psycopg://."""
    scheme, _, rest = url.partition("://")
    return f"postgresql+psycopg://{rest}" if scheme in ("postgresql", "postgres") else url


class Database:
    """A Postgres server by URL.

    Cheap to make: nothing is opened before the first transaction, and a process that was forked
    opens connections of its own. `connections` bounds what one process holds.
    """

    def __init__(
        self, url: str, connections: int = 5, statement_timeout_s: float = 30.0, name: str = ""
    ) -> None:
        self._url = sqlalchemy_url(url)
        self._connections = connections
        self._statement_timeout_s = statement_timeout_s
        self._name = name or "giveway"
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._pid = 0

    @property
    def reach(self) -> dict[str, Any]:
        """How psycopg reaches the server, for connections that an event loop makes for itself."""
        given = make_url(self._url).set(drivername="postgresql")
        return {
            "conninfo": given.render_as_string(hide_password=False),
            "application_name": self._name,
            "connect_timeout": 5,
        }

    def __repr__(self) -> str:
        return f"Database({make_url(self._url).render_as_string(hide_password=True)})"

    @property
    def engine(self) -> Engine:
        """This process's engine."""
        if self._engine is None or self._pid != os.getpid():
            with self._lock:
                if self._engine is None or self._pid != os.getpid():
                    self._engine = self._made()
                    self._pid = os.getpid()
        return self._engine

    def _made(self) -> Engine:
        options = (
            f"-c statement_timeout={int(self._statement_timeout_s * 1000)} "
            f"-c idle_in_transaction_session_timeout={_IDLE_IN_TRANSACTION_S * 1000} "
            "-c timezone=UTC"
        )
        return create_engine(
            self._url,
            pool_size=self._connections,
            max_overflow=0,
            pool_timeout=_OWN_S,
            pool_pre_ping=True,
            # Parameters may be people's texts: they never stand in an error.
            hide_parameters=True,
            connect_args={
                "connect_timeout": 5,
                "application_name": self._name,
                "options": options,
                # Twice is enough to prepare: the hot statements are few and come again and again.
                "prepare_threshold": 2,
                **_KEEPALIVE,
            },
        )

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction: committed at the end, rolled back by any exception.

        Never open one around a call to an endpoint. Raises DatabaseUnavailable when the server
        does not answer or went away; what was not committed then did not happen.
        """
        with self._named(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A transaction that only reads, and whose statements all see the same moment."""
        with self.transaction() as tx:
            tx.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
            yield tx

    def patiently(self, work: Callable[[Connection], T], patience_s: float) -> T:
        """Run `work` in a transaction, again and again while the server is away.

        For what must not be lost because a server restarts: `work` must be harmless when it is done
        twice, since a commit whose answer got lost may have happened. Raises DatabaseUnavailable
        when the server stayed away for `patience_s`.
        """
        give_up_at = clock.monotonic_s() + patience_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                with self.transaction() as tx:
                    return work(tx)
            except DatabaseUnavailable:
                if clock.monotonic_s() + pause_s > give_up_at:
                    raise
            threading.Event().wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    @contextmanager
    def session(self) -> Iterator[Connection]:
        """A connection with no transaction around its statements: each is one of its own, however
        long it takes. For slow work: between two of them no snapshot is kept, and nothing locked.
        """
        with (
            self._named(),
            self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as own,
        ):
            own.execute(text("SET statement_timeout = 0"))
            try:
                yield own
            finally:
                if not own.invalidated:
                    own.execute(text("RESET statement_timeout"))

    @contextmanager
    def guarded(self, lock: str) -> Iterator[Connection | None]:
        """A `session` that holds `lock`, as no other does; None: another does.

        The work goes over the same connection: the lock lives as long as what it guards, and no
        transaction is open beside it that a CREATE INDEX CONCURRENTLY would wait for.
        """
        with self.session() as own:
            if not own.execute(_TRY_LOCK, {"lock": lock}).scalar_one():
                yield None
                return
            try:
                yield own
            finally:
                self._unlock(own, lock)

    @staticmethod
    def _unlock(own: Connection, lock: str) -> None:
        """Give the lock up, if need be with the connection: another's work must not find it."""
        if own.invalidated:
            return
        try:
            own.execute(_UNLOCK, {"lock": lock})
        except DBAPIError:
            own.invalidate()

    def alone(self, statement: str) -> None:
        """Run a statement that Postgres takes only outside a transaction, however long it takes."""
        with self.session() as own:
            own.execute(text(statement))

    @contextmanager
    def _named(self) -> Iterator[None]:
        """DatabaseUnavailable for what the driver and the pool call otherwise."""
        try:
            yield
        except OperationalError as error:
            raise DatabaseUnavailable(_said(error)) from error
        except NoConnectionLeft as error:
            raise DatabaseUnavailable(
                f"all {self._connections} connections of this process were in use for {_OWN_S:g} s;"
                " see [database] connections"
            ) from error
        except DBAPIError as error:
            if error.connection_invalidated:
                raise DatabaseUnavailable(f"Postgres went away: {_first_line(error)}") from error
            raise

    def close(self) -> None:
        """Close this process's connections."""
        with self._lock:
            if self._engine is not None and self._pid == os.getpid():
                self._engine.dispose()
            self._engine = None


_TRY_LOCK = text("SELECT pg_try_advisory_lock(hashtextextended(:lock, 0))")
_UNLOCK = text("SELECT pg_advisory_unlock(hashtextextended(:lock, 0))")


def database_now(tx: Connection) -> datetime:
    """The database's clock, which all processes share: not when the transaction began."""
    at: datetime = tx.execute(text("SELECT clock_timestamp()")).scalar_one()
    return at


def together(tx: Connection, statements: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Rows]:
    """The rows of statements that are sent together, in the same transaction: one round trip. Each
    sees what was committed before it began, so that one may lock what the next one counts.

    A statement is psycopg's own, see `psycopgs`.
    """
    raw = driver(tx)
    try:
        with raw.pipeline():
            cursors = [raw.cursor(row_factory=dict_row) for _ in statements]
            for cursor, (statement, given) in zip(cursors, statements, strict=True):
                cursor.execute(statement, given)
        return [cursor.fetchall() for cursor in cursors]
    except psycopg.OperationalError as error:
        raise OperationalError(None, None, error) from error


def psycopgs(statement: TextClause) -> str:
    """A statement with psycopg's own marks for its parameters."""
    return re.sub(r"(?<![:\w]):([a-z_]+)\b", r"%(\1)s", statement.text.replace("%", "%%"))


def driver(connection: Connection) -> psycopg.Connection[Any]:
    """The psycopg connection beneath, in the same transaction; for COPY."""
    raw = connection.connection.driver_connection
    assert isinstance(raw, psycopg.Connection)
    return raw


_CUT_OFF = "57014"
_LOCKED = "55P03"
_NO_ROOM = "53"
_UNDONE = "40"


def _said(error: OperationalError) -> str:
    """What an operational error of Postgres is: that it does not answer is only one of them."""
    state, line = getattr(error.orig, "sqlstate", None) or "", _first_line(error)
    if state == _CUT_OFF:
        return (
            f"Postgres cut a statement off: {line}; see statement_timeout of the role or the "
            "database, and [database] statement_timeout_s"
        )
    if state == _LOCKED:
        return f"Postgres did not wait longer for a lock: {line}; see lock_timeout of the role"
    if state.startswith(_NO_ROOM):
        return f"Postgres has no room: {line}"
    if state.startswith(_UNDONE):
        return f"Postgres undid a transaction: {line}"
    return f"Postgres does not answer: {line}"


def _first_line(error: DBAPIError) -> str:
    text = str(error.orig).strip().splitlines()
    return text[0] if text else type(error).__name__
