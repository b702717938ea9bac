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


def choose(name: str, head: bytes, format: str | None = None) -> Source:  # noqa: A002
    """The format called `format`; None: told from the ending of `name`, else from `head`.

    An ending `.gz` is passed over. Raises UnknownName for a format that does not exist,
    BadSource where nothing tells.
    """
    known = sources()
    if format is not None:
        if format not in known:
            raise UnknownName("format", format, tuple(known))
        return known[format]
    endings = [ending.lower() for ending in PurePath(name).suffixes]
    last = next((ending for ending in reversed(endings) if ending != ".gz"), "")
    for told in (lambda s: last in s.endings, lambda s: s.recognises(head)):
        for source in known.values():
            if told(source):
                return source
    if not head:
        raise BadSource(f"{name} is empty")
    if head.lstrip().startswith(b"["):
        raise BadSource(f"{name} is one JSON array; write each of its objects on a line of its own")
    raise BadSource(f"{name}: cannot tell its format; give --format {' or '.join(known)}")
