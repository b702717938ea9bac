"""Every kind there is, found by looking into this package."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

import app.kinds
from app.errors import UnknownName
from app.kinds.base import Kind


@functools.cache
def kinds() -> Mapping[str, Kind]:
    """Kinds by name."""
    found: dict[str, Kind] = {}
    for module in pkgutil.iter_modules(app.kinds.__path__):
        if module.ispkg or module.name in ("base", "registry"):
            continue
        kind = getattr(importlib.import_module(f"app.kinds.{module.name}"), "KIND", None)
        if kind is not None:
            found[kind.name] = kind
    return MappingProxyType(found)


def kind(name: str) -> Kind:
    """The kind called `name`; UnknownName lists those there are."""
    try:
        return kinds()[name]
    except KeyError:
        raise UnknownName("job kind", name, list(kinds())) from None
