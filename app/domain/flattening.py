"""Nested values as columns: what a table can hold of what a model or a scorer gave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

Kind = Literal["bool", "int", "float", "text", "bools", "ints", "floats", "texts", "json"]
"""What every value of a column is; the plural forms are lists, json is anything else."""

_DEEPEST = 8
_LISTS: dict[str, Kind] = {"bool": "bools", "int": "ints", "float": "floats", "text": "texts"}
_WIDEST_INT = 2**63


def flattened(value: Any, name: str, *, single: bool = False) -> dict[str, Any]:
    """Columns by name: fields of objects joined to `name` by points, lists of objects as a list a
    field. `single`: a list of one is that one. None is no column."""
    found: dict[str, Any] = {}
    _into(found, value, name, 0, single=single)
    return found


def _into(found: dict[str, Any], value: Any, name: str, depth: int, *, single: bool) -> None:
    if single and isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, Mapping) and value and depth < _DEEPEST:
        for key, one in value.items():
            _into(found, one, f"{name}.{key}", depth + 1, single=single)
    elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        for key in dict.fromkeys(key for one in value for key in one):
            inner = [one.get(key) for one in value]
            _into(found, inner, f"{name}.{key}", depth + 1, single=single)
    elif value is not None:
        found[name] = value


def column_kinds(rows: Iterable[Mapping[str, Any]]) -> dict[str, Kind]:
    """The kind that fits every value of each column, in the order in which they are first seen."""
    found: dict[str, Kind] = {}
    for row in rows:
        for name, value in row.items():
            kind = _kind(value)
            found[name] = kind if name not in found else _common(found[name], kind)
    return found


def _kind(value: Any) -> Kind:
    match value:
        case bool():
            return "bool"
        case int():
            return "int" if -_WIDEST_INT <= value < _WIDEST_INT else "json"
        case float():
            return "float"
        case str():
            return "text"
        case list() if value:
            kinds = [_kind(one) for one in value if one is not None]
            inner = kinds[0] if kinds else "json"
            for one in kinds[1:]:
                inner = _common(inner, one)
            return _LISTS.get(inner, "json")
        case _:
            return "json"


def _common(one: Kind, other: Kind) -> Kind:
    if one == other:
        return one
    pair = {one, other}
    if pair == {"int", "float"}:
        return "float"
    return "floats" if pair == {"ints", "floats"} else "json"
