"""Every kind there is: those of this package, of installed packages, and of modules declared.

A package of your own offers a kind by the entry point group `giveway.kinds`, whose values name a
module with a `KIND`, or the kind itself. A module that is not installed as such is named in the
settings, `[kinds] modules`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any

import app.kinds
from app.errors import ConfigError, UnknownName
from app.kinds.base import Kind, ManySteps, OneCall

GROUP = "giveway.kinds"
"""The entry point group."""

_declared: dict[str, None] = {}


def declare(modules: Sequence[str]) -> None:
    """Add the kinds of these modules, by import name; they are loaded when kinds are asked for."""
    if not _declared.keys() >= set(modules):
        _declared.update(dict.fromkeys(modules))
        kinds.cache_clear()


@functools.cache
def kinds() -> Mapping[str, Kind]:
    """Kinds by name. ConfigError: one cannot be loaded, is no kind, or takes a name twice."""
    found: dict[str, Kind] = {}
    origin: dict[str, str] = {}
    for where, kind in (*_shipped(), *_installed(), *_named()):
        if kind.name in found and found[kind.name] is not kind:
            raise ConfigError(
                f"two kinds are called {kind.name!r}: one of {origin[kind.name]}, one of {where}; "
                "give yours another name"
            )
        found[kind.name], origin[kind.name] = kind, where
    return MappingProxyType(found)


def kind(name: str) -> Kind:
    """The kind called `name`; UnknownName lists those there are."""
    try:
        return kinds()[name]
    except KeyError:
        raise UnknownName("job kind", name, list(kinds())) from None


def _shipped() -> Iterator[tuple[str, Kind]]:
    for module in pkgutil.iter_modules(app.kinds.__path__):
        if module.ispkg or module.name in ("base", "registry"):
            continue
        name = f"app.kinds.{module.name}"
        loaded = importlib.import_module(name)
        if hasattr(loaded, "KIND"):
            yield name, _kind_of(loaded, name)


def _installed() -> Iterator[tuple[str, Kind]]:
    for entry in importlib.metadata.entry_points(group=GROUP):
        where = f"the entry point {entry.name} = {entry.value}"
        try:
            loaded = entry.load()
        except Exception as error:
            raise ConfigError(f"{where} cannot be loaded: {_said(error)}") from error
        yield where, _kind_of(loaded, where)


def _named() -> Iterator[tuple[str, Kind]]:
    for name in _declared:
        where = f"the module {name!r} of [kinds] modules"
        try:
            loaded = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise ConfigError(f"{where} cannot be loaded: {_said(error)}") from error
            raise ConfigError(
                f"{where} is not there; install it, or put its folder on PYTHONPATH"
            ) from None
        except Exception as error:
            raise ConfigError(f"{where} cannot be loaded: {_said(error)}") from error
        yield where, _kind_of(loaded, where)


def _kind_of(loaded: Any, where: str) -> Kind:
    kind = getattr(loaded, "KIND", None) if isinstance(loaded, ModuleType) else loaded
    if kind is None:
        raise ConfigError(f"{where} has no KIND")
    if not isinstance(kind, OneCall | ManySteps):
        raise ConfigError(
            f"the KIND of {where} is no kind: it needs name, params, together, collection and "
            "prepare, and either request and read, or step"
        )
    return kind


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
