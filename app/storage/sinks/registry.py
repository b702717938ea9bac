"""Which formats can be written, and which of them a file's name asks for."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import PurePath
from types import MappingProxyType

import app.storage.sinks as folder
from app.errors import UnknownName
from app.storage.sinks.base import Sink

DEFAULT = "jsonl"


@cache
def sinks() -> Mapping[str, Sink]:
    """Every format by name: the `SINK` of each module `*_sink` in this folder."""
    found: dict[str, Sink] = {}
    for module in sorted(pkgutil.iter_modules(folder.__path__), key=lambda m: m.name):
        if module.name.endswith("_sink"):
            sink: Sink = import_module(f"{folder.__name__}.{module.name}").SINK
            found[sink.name] = sink
    return MappingProxyType(found)


def choose(name: str, format: str | None = None) -> Sink:  # noqa: A002
    """The format called `format`; None: told from the ending of `name`, else JSONL.

    Raises UnknownName for a format that does not exist.
    """
    known = sinks()
    if format is not None:
        if format not in known:
            raise UnknownName("format", format, tuple(known))
        return known[format]
    ending = PurePath(name).suffix.lower()
    return next((sink for sink in known.values() if ending in sink.endings), known[DEFAULT])
