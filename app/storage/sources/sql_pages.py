"""Pages of a selection in the order of its id, each a short transaction of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    Connection,
    Engine,
    Select,
    bindparam,
    cast,
    literal_column,
    select,
    text,
    types,
)

from app.storage.sources.sql_reading import reading
from app.storage.sources.sql_statement import as_condition

PAGE_ROWS: Final = 10_000
_AFTER: Final = "giveway_after"


@dataclass(frozen=True, slots=True)
class Selection:
    """What is read: `columns` (None: all there are) of `table`, which is a name or a query in
    brackets, where `where` holds. All but `columns` is SQL."""

    columns: tuple[str, ...] | None
    table: str
    where: str | None = None

    def listed(self, engine: Engine) -> str:
        """The columns as SQL."""
        if self.columns is None:
            return "*"
        return ", ".join(map(engine.dialect.identifier_preparer.quote, self.columns))

    def statement(self, engine: Engine) -> str:
        """All of it as one statement."""
        where = "" if self.where is None else f" WHERE {as_condition(self.where)}"
        return f"SELECT {self.listed(engine)} FROM {self.table}{where}"


Page = tuple[tuple[str, ...], Sequence[Sequence[Any]]]
"""The names of the columns, and rows."""


def pages(engine: Engine, chosen: Selection, id_column: str) -> Iterator[Page]:
    """The rows by pages, at least one page, the last one perhaps empty. Rows without an id come
    last: they have no place in the order, and are there to be named as bad lines."""
    by_text = engine.dialect.name == "postgresql"
    column: Any = literal_column(engine.dialect.identifier_preparer.quote(id_column))
    query = select(text(_unbound(chosen.listed(engine)))).select_from(text(_unbound(chosen.table)))
    if chosen.where is not None:
        query = query.where(text(_unbound(as_condition(chosen.where))))
    ordered = query.where(column.is_not(None)).order_by(column)
    if by_text:
        # As the database writes it, so that it reads back as just that value, whatever its type.
        ordered = ordered.add_columns(cast(column, types.Text).label(_AFTER))
    yield from _in_order(engine, ordered, column, id_column, by_text=by_text)
    yield from _without_id(engine, query.where(column.is_(None)))


def _in_order(
    engine: Engine, ordered: Select[Any], column: Any, id_column: str, *, by_text: bool
) -> Iterator[Page]:
    """A page begins with the id that the one before it ended with: two rows may have the same."""
    given: Counter[Any] = Counter()
    most, asked = PAGE_ROWS, ordered
    while True:
        with reading(engine) as connection:
            columns, rows = _found(connection, asked.limit(most))
        at = len(columns) - 1 if by_text else columns.index(id_column) if rows else 0
        ids = [row[at] for row in rows]
        fresh = [row for row, one in zip(rows, ids, strict=True) if not _taken(given, one)]
        if by_text:
            columns, fresh = columns[:-1], [row[:-1] for row in fresh]
        yield columns, fresh
        if len(rows) < most:
            return
        given = Counter(ids)
        # So many rows have this very id: room for all of them, and for the next.
        most = PAGE_ROWS + given[ids[-1]]
        after: Any = bindparam("after", ids[-1], types.NullType() if by_text else None)
        asked = ordered.where(column >= after)


def _taken(given: Counter[Any], one: Any) -> bool:
    """Whether a row with this id is still to be passed over; it then is no more."""
    if given[one] <= 0:
        return False
    given[one] -= 1
    return True


def _without_id(engine: Engine, query: Select[Any]) -> Iterator[Page]:
    offset = 0
    while True:
        with reading(engine) as connection:
            columns, rows = _found(connection, query.limit(PAGE_ROWS).offset(offset))
        yield columns, rows
        if len(rows) < PAGE_ROWS:
            return
        offset += len(rows)


def _found(connection: Connection, query: Select[Any]) -> tuple[tuple[str, ...], list[Any]]:
    found = connection.execute(query)
    return tuple(found.keys()), list(found.all())


def _unbound(statement: str) -> str:
    """`statement` for `text()`, in which a colon would begin a parameter."""
    return statement.replace(":", "\\:")
