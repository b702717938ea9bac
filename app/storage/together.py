"""Statements of one transaction that are sent together: round trips are what they cost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, cast

import psycopg
from psycopg.rows import namedtuple_row
from sqlalchemy import Connection, TextClause

_MARKED: dict[TextClause, str] = {}


class Together:
    """A transaction as stores take it, whose statements go out without waiting for each other.

    A statement's answer is waited for when it is looked at, and with it those of all before it.
    What nobody looks at is waited for once, at the end. The connection is in pipeline mode, and in
    autocommit: so the transaction begins and ends with statements that are sent like all others.
    """

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self.raw = raw

    @property
    def tx(self) -> Connection:
        """For stores that send statements of `text`, and read rows of their answers."""
        return cast("Connection", self)

    def execute(self, statement: TextClause, values: Mapping[str, Any] | None = None) -> Sent:
        """Send a statement."""
        marked = _MARKED.get(statement)
        if marked is None:
            marked = _MARKED.setdefault(statement, psycopgs(statement))
        return Sent(self.raw.cursor(row_factory=namedtuple_row).execute(marked, values))


class Sent:
    """A statement that is on its way. Each method waits for its answer."""

    def __init__(self, cursor: psycopg.Cursor[Any]) -> None:
        self._cursor = cursor

    @property
    def rowcount(self) -> int:
        """How many rows it wrote."""
        with suppress(psycopg.ProgrammingError):  # There are no rows: it was waited for.
            self._cursor.fetchone()
        return self._cursor.rowcount

    def mappings(self) -> list[dict[str, Any]]:
        """Its rows by the names of their columns."""
        return [row._asdict() for row in self.all()]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.all())

    def all(self) -> list[Any]:
        """Its rows."""
        return self._cursor.fetchall()

    def one_or_none(self) -> Any:
        """Its only row; None: it has none."""
        return self._cursor.fetchone()

    def one(self) -> Any:
        """Its only row, which is there."""
        row = self._cursor.fetchone()
        assert row is not None
        return row

    def scalar_one(self) -> Any:
        """The first value of its only row."""
        return self.one()[0]

    def scalars(self) -> list[Any]:
        """The first value of each row."""
        return [row[0] for row in self.all()]


def psycopgs(statement: TextClause) -> str:
    """A statement with psycopg's own marks for its parameters."""
    return re.sub(r"(?<![:\w]):([a-z_]+)\b", r"%(\1)s", statement.text.replace("%", "%%"))
