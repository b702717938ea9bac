"""What an operational error of Postgres is, in words: not always that nobody answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import Connection, text

from app.errors import DatabaseUnavailable
from app.storage.database import Database


def slow(tx: Connection) -> None:
    tx.execute(text("SET LOCAL statement_timeout = 20"))
    tx.execute(text("SELECT pg_sleep(10)"))


def locked(tx: Connection) -> None:
    tx.execute(text("DO $$BEGIN RAISE lock_not_available USING MESSAGE = 'held'; END$$"))


def full(tx: Connection) -> None:
    tx.execute(text("DO $$BEGIN RAISE disk_full USING MESSAGE = 'no space'; END$$"))


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (slow, "Postgres cut a statement off: canceling statement due to statement timeout; see"),
        (locked, "Postgres did not wait longer for a lock: held"),
        (full, "Postgres has no room: no space"),
    ],
)
def test_it_says_what_it_was(
    migrated_url: str, act: Callable[[Connection], None], says: str
) -> None:
    database = Database(migrated_url)
    try:
        with pytest.raises(DatabaseUnavailable) as caught, database.transaction() as tx:
            act(tx)
    finally:
        database.close()
    assert says in str(caught.value)
    assert "does not answer" not in str(caught.value)
