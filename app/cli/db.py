"""`giveway db`: the schema's version."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli import render
from app.cli.common import DEFAULT_DATA, Config, Data, JsonFlag, wiring_for
from app.errors import UsageError

PANEL = "Operations"


def register(app: typer.Typer) -> None:
    """Add the group `db` to `app`."""
    group = typer.Typer(no_args_is_help=True, help="Bring the database's schema up to date.")
    group.command()(upgrade)
    group.command()(check)
    group.command(hidden=True)(downgrade)
    app.add_typer(group, name="db")


def upgrade(as_json: JsonFlag = False, config: Config = None, data: Data = DEFAULT_DATA) -> None:
    """Bring the schema to what this version needs; nothing happens when it is there."""
    from app.storage import schema

    with wiring_for(config, data) as wiring:
        was = schema.current(wiring.database)
        schema.upgrade(wiring.database)
        now = schema.current(wiring.database)
    if as_json:
        render.json_document({"was": was, "revision": now, "changed": was != now})
    elif was == now:
        typer.echo(f"the schema is at {now} already")
    else:
        typer.echo(f"the schema is at {now} now; it was {was or 'empty'}")


def check(as_json: JsonFlag = False, config: Config = None, data: Data = DEFAULT_DATA) -> None:
    """Say whether the schema is what this version needs. Exit status 1 if it is not."""
    from app.storage import schema

    with wiring_for(config, data) as wiring:
        current, head = schema.current(wiring.database), schema.head()
        differences = schema.differences(wiring.database)
    is_right = current == head and not differences
    if as_json:
        render.json_document(
            {"ok": is_right, "revision": current, "head": head, "differences": differences}
        )
    elif is_right:
        typer.echo(f"the schema is right: {head}")
    else:
        if current != head:
            typer.echo(f"the schema is {current or 'empty'}, not {head}; run: giveway db upgrade")
        for difference in differences:
            typer.echo(f"  {difference}")
    if not is_right:
        raise typer.Exit(render.FAILED)


def downgrade(
    revision: Annotated[str, typer.Argument(metavar="REVISION", help='"base" removes it all.')],
    yes: Annotated[
        bool, typer.Option("--yes", help="Yes, what the newer tables hold may go.")
    ] = False,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Take the schema back. What only newer tables hold is lost."""
    from app.storage import schema

    if not yes:
        raise UsageError("what the newer tables hold would be lost; say --yes if it may go")
    with wiring_for(config, data) as wiring:
        was = schema.current(wiring.database)
        schema.downgrade(wiring.database, revision)
        now = schema.current(wiring.database)
    if as_json:
        render.json_document({"was": was, "revision": now, "changed": was != now})
    else:
        typer.echo(f"the schema is {now or 'empty'} now; it was {was or 'empty'}")
