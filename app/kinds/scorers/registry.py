"""Every scorer there is, found by looking into this package."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

import app.kinds.scorers
from app import extras
from app.errors import UnknownName
from app.kinds.scorers.base import Scorer


@functools.cache
def scorers() -> Mapping[str, Scorer]:
    """Scorers by name."""
    found: dict[str, Scorer] = {}
    for module in pkgutil.iter_modules(app.kinds.scorers.__path__):
        loaded = importlib.import_module(f"app.kinds.scorers.{module.name}")
        scorer = getattr(loaded, "SCORER", None)
        if scorer is not None:
            found[scorer.name] = scorer
    return MappingProxyType(found)


def scorer(name: str) -> Scorer:
    """The scorer called `name`; UnknownName lists those there are."""
    try:
        return scorers()[name]
    except KeyError:
        raise UnknownName("scorer", name, list(scorers())) from None


def missing(one: Scorer) -> list[str]:
    """The modules that `one` needs and that are not installed."""
    return extras.missing(*one.needs)
