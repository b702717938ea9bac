"""What every command shares: its options, and the wiring of the stack that it talks to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.domain import moments
from app.errors import UsageError

if TYPE_CHECKING:
    from app.settings import Settings
    from app.wiring import Wiring

_WHERE = "Where"

Config = Annotated[
    Path | None,
    typer.Option(
        envvar="GIVEWAY_CONFIG",
        help="Settings file; else that of the running stack, else ./giveway.toml.",
        rich_help_panel=_WHERE,
        show_default=False,
    ),
]
Data = Annotated[
    Path,
    typer.Option(
        envvar="GIVEWAY_DATA",
        help="Folder that holds everything the stack keeps.",
        rich_help_panel=_WHERE,
    ),
]
JsonFlag = Annotated[
    bool, typer.Option("--json", help="One JSON document on standard output.", show_default=False)
]
Force = Annotated[
    bool, typer.Option("--force", help="Write over a file that is there.", show_default=False)
]
DEFAULT_DATA = Path(".giveway")

seconds = moments.seconds
"""`90`, `90s`, `15m`, `1h`, `2d` in seconds."""


def settings_for(config: Path | None, data: Path) -> Settings:
    """The settings of the stack that runs on `data`, or those of this process alone.

    A config that is named (by flag or environment) wins over the running stack's own.
    """
    from app.local.state import environment_of
    from app.settings import load

    return load(_named(config, data), beneath=environment_of(data) or {})


def settings_file(config: Path | None, data: Path) -> Path | None:
    """The file that `settings_for` reads; None: there is none."""
    from app.settings import settings_files

    return settings_files(_named(config, data))


@contextmanager
def wiring_for(config: Path | None, data: Path) -> Iterator[Wiring]:
    """Everything a command needs; what it opened is closed at the end."""
    from app.wiring import Wiring

    settings = settings_for(config, data)
    wiring = Wiring(settings)
    wiring.observer = wiring.recorder
    wiring.data = data if data.is_dir() else None
    try:
        yield wiring
    finally:
        wiring.close()


def one_pool(wiring: Wiring, name: str | None) -> str:
    """The pool called `name`; None: the only one there is. UsageError: there are several."""
    if name is not None:
        return wiring.pools.named(name).name
    names = sorted(wiring.pools.by_name)
    if len(names) > 1:
        raise UsageError(f"name a pool with --pool: {', '.join(names)}")
    return names[0]


def _named(config: Path | None, data: Path) -> Path | None:
    """The file that a flag, the environment or the running stack names."""
    from app.local.state import environment_of

    beneath = environment_of(data) or {}
    text = os.environ.get("GIVEWAY_CONFIG") or beneath.get("GIVEWAY_CONFIG")
    return config or (Path(text) if text else None)
