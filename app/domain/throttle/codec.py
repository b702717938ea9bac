"""Frozen dataclasses to plain JSON values and back, exactly: a replay must decide what was decided.

Floats survive because Python writes the shortest text that reads back the same and jsonb keeps the
digits. NaN and the infinities, which JSON (and jsonb) do not have, are written as the texts "nan",
"inf" and "-inf": a broken reading must be storable, since it explains the decision it led to.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar, Union

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """`value` as dicts, lists, texts, numbers, booleans and None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(inner) for inner in value]
    return value


def from_plain(cls: type[T], plain: Mapping[str, Any]) -> T:
    """The `cls` that `to_plain` made `plain` of.

    A field that `plain` does not have takes its default (rows older than the field still replay);
    a key that `cls` does not have is passed over (rows newer than this program still show).
    """
    hints = _hints(cls)
    return cls(**{name: _read(hint, plain[name]) for name, hint in hints.items() if name in plain})


def _hints(cls: Any) -> dict[str, Any]:
    return _cached_hints(cls)


@functools.cache
def _cached_hints(cls: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _read(hint: Any, plain: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        if plain is None:
            return None
        inner = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        return _read(inner[0], plain) if len(inner) == 1 else _scalar(plain)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        value_hint = typing.get_args(hint)[1]
        return {key: _read(value_hint, value) for key, value in plain.items()}
    if origin is tuple:
        return tuple(_read(typing.get_args(hint)[0], value) for value in plain)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_plain(hint, plain)
    if hint is datetime:
        return datetime.fromisoformat(plain)
    if hint is float:
        return float(plain)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint(plain)
    return plain


def _scalar(plain: Any) -> Any:
    """A value whose field allows several kinds: the text of a NaN becomes a NaN again."""
    return float(plain) if plain in ("nan", "inf", "-inf") else plain
