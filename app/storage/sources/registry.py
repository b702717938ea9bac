"""Which formats there are, and which of them a file is in."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import PurePath
from types import MappingProxyType

import app.storage.sources as folder
from app.errors import BadSource, UnknownName
from app.storage.sources.base import Source


@cache
def sources() -> Mapping[str, Source]:
    """Every format by name: the `SOURCE` of each module `*_source` in this folder."""
    found: dict[str, Source] = {}
    for module in sorted(pkgutil.iter_modules(folder.__path__), key=lambda m: m.name):
        if module.name.endswith("_source"):
            source: Source = import_module(f"{folder.__name__}.{module.name}").SOURCE
            found[source.name] = source
    return MappingProxyType(found)


def source_named(name: str) -> Source:
    """The format called `name`; UnknownName lists those there are."""
    known = sources()
    if name not in known:
        raise UnknownName("format", name, tuple(known))
    return known[name]


def by_name(name: str, format: str | None = None) -> Source | None:  # noqa: A002
    """The format called `format`; None: told from the ending of `name`, which may tell nothing.

    An ending `.gz` is passed over. UnknownName: there is no such format.
    """
    if format is not None:
        return source_named(format)
    endings = [ending.lower() for ending in PurePath(name).suffixes]
    last = next((ending for ending in reversed(endings) if ending != ".gz"), "")
    return next((source for source in sources().values() if last in source.endings), None)


def choose(name: str, head: bytes, format: str | None = None) -> Source:  # noqa: A002
    """What `by_name` tells, else what `head` does. UnknownName; BadSource where nothing tells."""
    found = by_name(name, format)
    if found is not None:
        return found
    known = sources()
    for source in known.values():
        if source.recognises(head):
            return source
    if not head:
        raise BadSource(f"{name} is empty")
    if head.lstrip().startswith(b"["):
        raise BadSource(f"{name} is one JSON array; write each of its objects on a line of its own")
    raise BadSource(f"{name}: cannot tell its format; give --format {' or '.join(known)}")
