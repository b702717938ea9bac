"""Columns: those that were asked for must be there, or the message names the nearest."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from app.errors import BadSource
from app.storage.sources.base import Batch, ReadOptions, Row

_LISTED: Final = 40
"""More columns than this are not all named."""


def check_columns(name: str, wanted: Sequence[str], columns: Sequence[str]) -> None:
    """BadSource if one of `wanted` is not among `columns`, or twice. None known: nothing to say."""
    for column in wanted if columns else ():
        if (times := columns.count(column)) == 1:
            continue
        if times:
            raise BadSource(f"{name}: the column {column!r} is there twice; rename one of them")
        near = get_close_matches(column.lower(), [c.lower() for c in columns], n=1)
        meant = next((c for c in columns if near and c.lower() == near[0]), None)
        hint = f"; did you mean {meant!r}?" if meant is not None else ";"
        listed = ", ".join(columns[:_LISTED]) + (", …" if len(columns) > _LISTED else "")
        raise BadSource(f"{name}: no column {column!r}{hint} columns: {listed}")


def members(batch: Batch) -> tuple[str, ...]:
    """Every name that some row of `batch` has, in the order of their appearance."""
    return tuple(dict.fromkeys(n for row in batch if isinstance(row, Row) for n in row.values))


def needed(
    columns: Sequence[str] | None, options: ReadOptions, more: Sequence[str] = ()
) -> tuple[str, ...] | None:
    """Which of `columns` a reading looks at, `more` among them; None: all of them, or which there
    are is not known. Those that are not there are left to `check_columns`."""
    if columns is None or options.takes_all:
        return None
    asked = dict.fromkeys((*options.wanted, *more))
    return tuple(column for column in asked if column in columns)
