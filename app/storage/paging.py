"""Reading much in pages, a short transaction each: a slow reader keeps no snapshot and no lock."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final, TypeVar

from sqlalchemy import Connection

from app.storage.database import Database

T = TypeVar("T")
K = TypeVar("K")

ROWS: Final = 1000
"""Of one page."""


def paged(
    database: Database,
    read: Callable[[Connection, K], Sequence[T]],
    first: K,
    after: Callable[[T], K],
) -> Generator[T, None, None]:
    """All rows: `read` gives those after a place, at most `ROWS`; `after` is the place of a row.

    What is written meanwhile is among them or not, as its place is.
    """
    place = first
    while True:
        with database.transaction() as tx:
            page = read(tx, place)
        yield from page
        if len(page) < ROWS:
            return
        place = after(page[-1])
