"""`giveway search` and `giveway collections`: looking into vectors."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import Annotated

import typer

from app.cli import render
from app.cli.common import DEFAULT_DATA, Config, Data, JsonFlag, wiring_for
from app.cli.export import export
from app.errors import UsageError

PANEL = "Collections"
ORDER = 10
_SHOWN_CHARS = 300


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(search)
    group = typer.Typer(invoke_without_command=True, help="List the collections, or export one.")
    group.callback()(collections)
    group.command()(export)
    app.add_typer(group, name="collections")


def search(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the items should be like.")],
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The nearest so many.")] = 5,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Find the items of a collection that are nearest to TEXT in meaning."""
    if not text.strip():
        raise UsageError("TEXT is blank; say what the items should be like")
    with wiring_for(config, data) as wiring:
        hits = wiring.searching.search(collection, text, limit)
    if as_json:
        document = {"collection": collection, "query": text, "hits": [asdict(hit) for hit in hits]}
        render.json_document(document)
        return
    if not hits:
        typer.echo(f"collection {collection} holds no vectors yet")
    for hit in hits:
        typer.echo(f"{hit.score:.3f}  {hit.key}")
        said = " ".join((hit.text or "(its text is gone)").split())
        typer.echo(
            textwrap.indent(textwrap.shorten(said, _SHOWN_CHARS, placeholder=" …"), "       ")
        )


def collections(
    ctx: typer.Context,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """List the collections of vectors."""
    if ctx.invoked_subcommand is not None:
        return
    with wiring_for(config, data) as wiring:
        found = wiring.inspection.collections()
    if as_json:
        render.json_document({"collections": found})
    elif not found:
        typer.echo("no collections; make one with: giveway submit embed FILE")
    else:
        rows = [
            (c["name"], c["model"], str(c["dimension"] or "-"), f"{c['vectors']:,}") for c in found
        ]
        headings = ("collection", "model", "dimension", "vectors")
        render.table(headings, rows, right=("dimension", "vectors"))
