"""Changing a few values in the text of giveway.toml, with its comments and its order kept."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.container import Container
from tomlkit.items import AoT, Array, Comment, InlineTable, Item, Null, Table, Whitespace

from app.errors import ConfigError
from app.settings.endpoints import EndpointSettings
from app.settings.load import load
from app.settings.pools import PoolSettings

Values = Mapping[str, int | float]


def with_pool(text: str, name: str, values: Values) -> str:
    """`text` with `values` in the pool called `name`; where it declares no pools, with one more.

    ConfigError: it declares pools, but not this one.
    """
    document = tomlkit.parse(text)
    if "pools" not in document:
        table = tomlkit.table()
        table["name"] = name
        table.update(values)
        before = text if not text or text.endswith("\n") else text + "\n"
        pools = tomlkit.aot()
        pools.append(table)
        added = tomlkit.document()
        added["pools"] = pools
        return f"{before}\n{added.as_string()}" if before.strip() else added.as_string()
    _put(_entry(document, "pools", name), values)
    return document.as_string()


def with_endpoint(text: str, name: str, values: Values) -> str:
    """`text` with `values` in the endpoint called `name`. ConfigError: it does not declare it."""
    document = tomlkit.parse(text)
    _put(_entry(document, "endpoints", name), values)
    return document.as_string()


def whole(
    pool: PoolSettings,
    values: Values,
    endpoints: Sequence[EndpointSettings],
    endpoint_values: Mapping[str, Values],
) -> str:
    """A new file with this pool and its endpoints; `endpoint_values` by an endpoint's name."""
    document = tomlkit.document()
    pools = tomlkit.aot()
    pools.append(_table({**_said(pool), **values}))
    document["pools"] = pools
    entries = tomlkit.aot()
    for endpoint in endpoints:
        entries.append(_table({**_said(endpoint), **endpoint_values.get(endpoint.name, {})}))
    document["endpoints"] = entries
    return document.as_string()


def read(path: Path) -> str:
    """The text of the file, its line ends as they are."""
    return path.read_bytes().decode("utf-8-sig")


def save(path: Path, text: str) -> None:
    """Put `text` in the place of the file at once, if it is right. ConfigError: it is not."""
    mode = path.stat().st_mode & 0o777
    target = path.resolve()  # A link stays a link.
    handle, name = tempfile.mkstemp(suffix=".toml", prefix=f".{target.stem}-", dir=target.parent)
    fresh = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        load(fresh)
        fresh.chmod(mode)
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)


def _said(settings: PoolSettings | EndpointSettings) -> dict[str, Any]:
    """What was set, and the defaults that a reader wants to see."""
    shown = {"name", "total", "reserve", "pool", "kind", "max_concurrency"}
    said = settings.model_dump(exclude_none=True)
    kept = shown | settings.model_fields_set
    return {key: value for key, value in said.items() if key in kept}


def _table(values: Mapping[str, Any]) -> Table:
    table = tomlkit.table()
    for key, value in values.items():
        table[key] = list(value) if isinstance(value, tuple) else value
    return table


def _entry(document: tomlkit.TOMLDocument, kind: str, name: str) -> Table | InlineTable:
    entries = document.get(kind)
    found = list(entries) if isinstance(entries, AoT | Array) else []
    for entry in found:
        if isinstance(entry, Table | InlineTable) and entry.get("name") == name:
            return entry
    known = ", ".join(str(entry.get("name")) for entry in found) or "none"
    raise ConfigError(f"the settings file has no {name!r} among its {kind}; it has: {known}")


def _put(table: Table | InlineTable, values: Values) -> None:
    """Set values; new keys go after the last one, before what stands above the next table."""
    fresh = {key: value for key, value in values.items() if key not in table}
    for key, value in values.items():
        if key in table:
            table[key] = value
    if isinstance(table, InlineTable):
        table.update(fresh)
        return
    tail = _cut_tail(table.value)
    for key, value in fresh.items():
        table.append(key, value)
    for item in tail:
        table.append(None, item)


def _cut_tail(container: Container) -> list[Item]:
    """Take away the blank lines and comments at the end of a table: they belong to the next."""
    tail: list[Item] = []
    body = container.body
    while body and isinstance(body[-1][1], Whitespace | Comment | Null):
        tail.insert(0, body.pop()[1])
    return [item for item in tail if not isinstance(item, Null)]
