"""Extras: optional packages, asked for by what needs them before it begins."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from app.errors import MissingPart


def missing(*modules: str) -> list[str]:
    """Those of `modules` that are not installed."""
    return [name for name in modules if importlib.util.find_spec(name) is None]


def install_line(extra: str) -> str:
    """What installs an extra beside the Giveway that is there, in the same environment."""
    return f"pip install 'giveway[{extra}]'"


def need(what: str, extra: str, modules: Sequence[str]) -> None:
    """MissingPart, with the line that installs it: `what` needs modules that are not there."""
    if lacking := missing(*modules):
        raise MissingPart(f"{what} {', '.join(lacking)}; install it with: {install_line(extra)}")
