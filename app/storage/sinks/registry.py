"""Which formats can be written, and which of them a file's name asks for."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

import app.storage.sinks as folder
from app.errors import UnknownName, UsageError
from app.storage.sinks.base import Sink
from app.storage.sinks.writing import STDOUT, is_stream

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
    """The format called `format`; None: told from the ending of `name`. Standard output, and a
    device or a pipe with no ending, are JSONL.

    UnknownName: a format that does not exist. UsageError: an ending that no format has.
    """
    known = sinks()
    if format is not None:
        if format not in known:
            raise UnknownName("format", format, tuple(known))
        return known[format]
    path = Path(name)
    ending = path.suffix.lower()
    found = next((sink for sink in known.values() if ending in sink.endings), None)
    if found is not None:
        return found
    if name == STDOUT or is_stream(path):
        return known[DEFAULT]
    endings = ", ".join(one for sink in known.values() for one in sink.endings)
    raise UsageError(
        f"{name}: no format is known by {f'the ending {ending}' if ending else 'no ending'}; end "
        f"the name in one of {endings}, or say --format {', '.join(known)}"
    )
