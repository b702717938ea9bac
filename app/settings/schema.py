"""What the settings model allows where: its tables, keys and secrets, found by walking it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, SecretBytes, SecretStr

PREFIX = "GIVEWAY_"
SEPARATOR = "__"


def keys_at(model: type[BaseModel], path: tuple[str | int, ...]) -> tuple[str, ...]:
    """The keys of the table at `path`; none where anything or nothing may stand there."""
    table = table_at(model, path)
    return tuple(table.model_fields) if table is not None else ()


def table_at(model: type[BaseModel], path: tuple[str | int, ...]) -> type[BaseModel] | None:
    """The model of the table at `path`, such as `("pools", 0)`; None: there is none."""
    table: type[BaseModel] | None = model
    for step in path:
        if isinstance(step, int):
            continue
        if table is None or step not in table.model_fields:
            return None
        table = inner_table(table.model_fields[step].annotation)
    return table


def inner_table(annotation: Any) -> type[BaseModel] | None:
    """The model inside an annotation such as `tuple[PoolSettings, ...]`; None: there is none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(inner_table, get_args(annotation))), None)


def is_table(annotation: Any) -> bool:
    """True for one table (`[throttle]`), False for an array of tables and for a plain value."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def is_secret(model: type[BaseModel], path: tuple[str | int, ...]) -> bool:
    """True where what stands at `path` must not be shown: a secret, or something unknown."""
    table = table_at(model, path[:-1])
    field = table.model_fields.get(str(path[-1])) if table is not None and path else None
    return field is None or _holds_secret(field.annotation)


def variables(model: type[BaseModel]) -> dict[str, bool]:
    """Every environment variable that is read, and whether its value is JSON."""
    return {name: as_json for name, _, as_json in _variables(model)}


def variable_paths(model: type[BaseModel]) -> dict[tuple[str | int, ...], str]:
    """Path of a setting to the variable that stands for it."""
    return {path: name for name, path, _ in _variables(model)}


def _variables(model: type[BaseModel]) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    for name, field in model.model_fields.items():
        variable = PREFIX + name.upper()
        table = inner_table(field.annotation)
        yield variable, (name,), table is not None
        if table is not None and is_table(field.annotation):
            for key in table.model_fields:
                yield variable + SEPARATOR + key.upper(), (name, key), False


def _holds_secret(annotation: Any) -> bool:
    if annotation in (SecretStr, SecretBytes):
        return True
    return any(map(_holds_secret, get_args(annotation)))
