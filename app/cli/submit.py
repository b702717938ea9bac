"""`giveway submit`: a source becomes a job, once. Each kind of job is a command of the group."""

from __future__ import annotations

import typer

from app.cli.parts.kind_group import KindGroup

PANEL = "Jobs"
ORDER = 0


def register(app: typer.Typer) -> None:
    """Add the group `submit` to `app`; every kind of job is given a command of it."""
    group = typer.Typer(
        cls=KindGroup,
        no_args_is_help=True,
        help="Submit a job; each kind of job is a command.",
    )
    app.add_typer(group, name="submit")
