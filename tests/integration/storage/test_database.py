"""The way to Postgres: what bounds a session, and what is said when none is left."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, text

from app import errors
from app.storage import database
from app.storage.database import Database


@pytest.fixture
def narrow(database_url: str) -> Iterator[Database]:
    """A process with one connection."""
    one = Database(database_url, 1, statement_timeout_s=7.0, name="narrow")
    yield one
    one.close()


def test_sessions_have_their_bounds_whoever_opens_them(narrow: Database) -> None:
    with narrow.transaction() as tx:
        shown = {
            name: tx.execute(text(f"SHOW {name}")).scalar_one()
            for name in ("idle_in_transaction_session_timeout", "statement_timeout", "TimeZone")
        }
    assert shown == {
        "idle_in_transaction_session_timeout": "30s",
        "statement_timeout": "7s",
        "TimeZone": "UTC",
    }


def test_a_session_that_idles_in_a_transaction_is_ended_and_the_next_one_works(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_IDLE_IN_TRANSACTION_S", 1)
    one = Database(database_url, 1)

    def idle(tx: Connection) -> None:
        tx.execute(text("SELECT 1"))
        threading.Event().wait(2)
        tx.execute(text("SELECT 1"))

    with pytest.raises(errors.DatabaseUnavailable):
        one.patiently(idle, 0)
    with one.transaction() as tx:
        assert tx.execute(text("SELECT 1")).scalar_one() == 1
    one.close()


def test_no_connection_left_is_a_database_that_does_not_answer(
    narrow: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has patience waits for one, as for a server that restarts."""
    monkeypatch.setattr(database, "_OWN_S", 0.05)
    taken, over = threading.Event(), threading.Event()

    def hold() -> None:
        with narrow.transaction() as tx:
            tx.execute(text("SELECT 1"))
            taken.set()
            over.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    assert taken.wait(20)
    with (
        pytest.raises(errors.DatabaseUnavailable, match=r"all 1 connections .* connections"),
        narrow.transaction(),
    ):
        pass
    threading.Timer(0.3, over.set).start()
    assert narrow.patiently(lambda tx: tx.execute(text("SELECT 2")).scalar_one(), 30) == 2
    holder.join(20)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_opens_sessions_of_its_own(narrow: Database) -> None:
    backend = "SELECT pg_backend_pid()"
    with narrow.transaction() as tx:
        own = tx.execute(text(backend)).scalar_one()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with narrow.transaction() as tx:
                os.write(write_end, str(tx.execute(text(backend)).scalar_one()).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write_end)
    with os.fdopen(read_end) as told:
        assert int(told.read()) != own
    with narrow.transaction() as tx:
        assert tx.execute(text(backend)).scalar_one() == own
