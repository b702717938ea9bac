"""Which sorts of places rows can come from, and which of them a person means."""

from __future__ import annotations

import os
import pkgutil
import stat
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

import app.storage.sources as folder
from app.errors import UsageError
from app.storage.sources.base import Asked, Origin, Place, ReadOptions
from app.storage.sources.words import check_words

_FALLBACK = "file"
STDIN = "-"
"""Standard input, as it is named for a file."""


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


def check_asked(asked: Asked, options: ReadOptions) -> None:
    """UsageError and its leaves: what cannot be read so, whatever is there when it is read.

    Nothing is opened. What `env:NAME` stands for is for the process that reads to know: of it only
    what no place can do is refused.
    """
    if asked.uri.startswith("env:"):
        check_words(options)
    else:
        place_of(asked).check(options)


def resolved(uri: str) -> str:
    """`uri`, or what the variable holds that `env:NAME` names."""
    scheme, _, name = uri.partition(":")
    if scheme != "env":
        return uri
    value = os.environ.get(name)
    if not value:
        raise UsageError(f"the source is {uri}, but no environment variable {name!r} is set here")
    return value


def is_stream(uri: str) -> bool:
    """Whether what `uri` names can be read only once: standard input, a pipe such as that of
    `<(command)`, a terminal."""
    if uri == STDIN:
        return True
    if "://" in uri or uri.startswith(("hf:", "env:")):
        return False
    try:
        mode = Path(uri).stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def not_there(uri: str) -> str | None:
    """What `uri` needs and this process does not see: a variable, a file; None: nothing."""
    if uri.startswith("env:"):
        name = uri.removeprefix("env:")
        return None if os.environ.get(name) else f"no environment variable {name!r} is set here"
    if "://" in uri or uri.startswith("hf:") or Path(uri).exists():
        return None
    return f"there is no {uri} now"


def kept_as(uri: str, base: Path) -> str:
    """`uri` as it can be written down and used from anywhere; paths count from `base`.

    UsageError: standard input or a pipe, a database URL with a password, or a path that is no text.
    """
    from app.storage.sources.urls import anchored, has_password, masked_url

    if is_stream(uri):
        shown = "standard input" if uri == STDIN else f"{uri} is no file and"
        raise UsageError(f"{shown} cannot be read again later; name a file")
    if "://" in uri:
        if has_password(uri):
            raise UsageError(
                f"the password in {masked_url(uri)} would be kept in the database; put the URL "
                "into an environment variable of the control worker, and write env:NAME in its "
                "place, such as --source env:SOURCE_URL"
            )
        return anchored(uri, base)
    if uri.startswith("env:"):
        return uri
    if not uri.isascii() and os.fsencode(uri).decode("utf-8", "replace") != uri:
        raise UsageError(f"the path {uri!r} is no UTF-8 and cannot be kept; rename it")
    scheme, path = ("hf:", uri[3:]) if uri.startswith("hf:") else ("", uri)
    local = base / Path(path).expanduser()
    return uri if scheme and not local.exists() else f"{scheme}{local.resolve()}"
