"""Which sorts of places rows can come from, and which of them a person means."""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

import app.storage.sources as folder
from app.errors import UsageError
from app.storage.sources.base import Asked, Origin, Place

_FALLBACK = "file"


@cache
def origins() -> Mapping[str, Origin]:
    """Every origin by name: the `ORIGIN` of each module `*_origin` in this folder."""
    found: dict[str, Origin] = {}
    for module in sorted(pkgutil.iter_modules(folder.__path__), key=lambda m: m.name):
        if module.name.endswith("_origin"):
            origin: Origin = import_module(f"{folder.__name__}.{module.name}").ORIGIN
            found[origin.name] = origin
    return MappingProxyType(found)


def place_of(asked: Asked) -> Place:
    """The place that is meant; nothing is opened yet.

    `env:NAME` stands for what that environment variable holds. UsageError: it holds nothing, or
    what was asked does not make sense.
    """
    asked = replace(asked, uri=resolved(asked.uri))
    known = origins()
    claiming = (o for o in known.values() if o.name != _FALLBACK and o.claims(asked))
    return next(claiming, known[_FALLBACK]).place(asked)


def resolved(uri: str) -> str:
    """`uri`, or what the variable holds that `env:NAME` names."""
    scheme, _, name = uri.partition(":")
    if scheme != "env":
        return uri
    value = os.environ.get(name)
    if not value:
        raise UsageError(f"the source is {uri}, but no environment variable {name!r} is set here")
    return value


def kept_as(uri: str, base: Path) -> str:
    """`uri` as it can be written down and used from anywhere; paths count from `base`.

    UsageError: standard input, or a database URL with a password.
    """
    from app.storage.sources.urls import has_password, masked_url

    if uri == "-":
        raise UsageError("standard input cannot be read again later; name a file")
    if "://" in uri:
        if has_password(uri):
            raise UsageError(
                f"the password in {masked_url(uri)} would be kept in the database; put the URL "
                "into an environment variable of the control worker, and write env:NAME"
            )
        return uri
    if uri.startswith("env:"):
        return uri
    scheme, path = ("hf:", uri[3:]) if uri.startswith("hf:") else ("", uri)
    local = base / Path(path).expanduser()
    return uri if scheme and not local.exists() else f"{scheme}{local.resolve()}"
