"""Data frames: rows of pandas or polars as items, and results as a data frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.domain.flattening import flattened
from app.extras import need

OURS = ("status", "code", "error", "tokens")


def is_frame(value: object) -> bool:
    """Whether it is a data frame of pandas or polars, told without either."""
    return any(
        one.__module__.partition(".")[0] in ("pandas", "polars") and one.__name__ == "DataFrame"
        for one in type(value).__mro__
    )


def rows_of(frame: Any, text_field: str | None = "text") -> Iterator[dict[str, Any]]:
    """A data frame as dicts of what JSON can hold: what is missing is None, a missing text an empty
    one, as NULL of a database is; a time is ISO text."""
    for row in _rows_of(frame):
        if text_field in row and row[text_field] is None:
            row[text_field] = ""
        yield row


def _rows_of(frame: Any) -> Iterator[dict[str, Any]]:
    if hasattr(frame, "iter_rows"):
        for row in frame.iter_rows(named=True):
            yield {str(name): _plain(value) for name, value in row.items()}
        return
    names = [str(name) for name in frame.columns]
    for values in frame.itertuples(index=False, name=None):
        yield dict(zip(names, map(_plain, values), strict=True))


def _plain(value: Any) -> Any:
    """NaN, NaT and NA are None, numbers of numpy are Python's."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if hasattr(value, "tolist"):  # numpy, single values and arrays
        return _plain(value.tolist())
    if type(value).__name__ in ("NaTType", "NAType") or value != value:  # noqa: PLR0124
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value if isinstance(value, float) else str(value)


def frame_of(rows: Iterator[Mapping[str, Any]], *, single: bool) -> Any:
    """Results with their items as a pandas DataFrame: key, the item's fields, status, code, error,
    tokens, and a column for each field of the output. MissingPart: pandas is not installed."""
    need("a data frame needs", "pandas", ["pandas"])
    import pandas

    fields: dict[str, None] = {}
    outputs: dict[str, None] = {}
    made: list[dict[str, Any]] = []
    for row in rows:
        payload = row["payload"] if isinstance(row["payload"], dict) else {}
        item = {_field(name): value for name, value in payload.items()}
        output = flattened(row["output"], "output", single=single)
        fields |= dict.fromkeys(item)
        outputs |= dict.fromkeys(output)
        made.append({"key": row["key"], **item, **{n: row[n] for n in OURS}, **output})
    return pandas.DataFrame(made, columns=["key", *fields, *OURS, *outputs])


def _field(name: str) -> str:
    """A field of an item; one with a name of ours is told apart."""
    is_ours = name in ("key", *OURS) or name.startswith("output.")
    return f"input.{name}" if is_ours else name
