"""`giveway embeddings`: collections as a whole: figures, faults, another model, the swap."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import render
from app.cli.common import DEFAULT_DATA, Config, Data, JsonFlag, wiring_for
from app.cli.parts import submit_options as shared
from app.errors import UsageError

if TYPE_CHECKING:
    from app.services.collections import Verified
    from app.storage.collection_store import CollectionStats

PANEL = "Collections"
ORDER = 20

Name = Annotated[str, typer.Argument(metavar="COLLECTION")]

_SAID = {
    "missing": "have no vector",
    "stale": "have the vector of another text",
    "orphan": "have a vector but are not in it",
    "incomplete": "have more or fewer pieces than their text",
    "wrong_length": "have a vector of another length",
    "zeros": "have a vector of nothing but zeros",
    "hole": "lack a piece in the middle",
}


def register(app: typer.Typer) -> None:
    """Add the group `embeddings` to `app`."""
    group = typer.Typer(
        no_args_is_help=True,
        help="Look after collections: verify, embed again with another model, swap, index.",
    )
    for command in (stats, verify, reembed, swap, index, delete):
        group.command()(command)
    app.add_typer(group, name="embeddings")


def stats(
    collection: Annotated[str | None, typer.Argument(metavar="[COLLECTION]")] = None,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Tell a collection's figures: items, vectors, sizes, index; without a name, those of all."""
    with wiring_for(config, data) as wiring:
        found = wiring.collections.stats(collection)
    if as_json:
        render.json_document({"collections": [asdict(one) for one in found]})
        return
    headings = ("collection", "model", "dimension", "items", "vectors", "coming", "MB", "index")
    rows = [
        (
            one.name,
            one.model,
            str(one.dimension or "-"),
            f"{one.items:,}",
            f"{one.vectors:,}",
            f"{one.coming:,}",
            f"{one.vector_bytes / 1e6:,.1f}",
            _index_said(one),
        )
        for one in found
    ]
    if not rows:
        typer.echo("no collections; make one with: giveway submit embed FILE")
        return
    render.table(headings, rows, right=("dimension", "items", "vectors", "coming", "MB"))


def _index_said(one: CollectionStats) -> str:
    return f"{one.index_bytes / 1e6:,.1f} MB" if one.indexed else "none"


def verify(
    collection: Name,
    file: shared.File = None,
    source: shared.Source = None,
    query: shared.Query = None,
    table: shared.Table = None,
    keyset: shared.Keyset = False,
    where: shared.Where = None,
    text_field: Annotated[
        str, shared.option("Field that is the item's text; default: text.", shared.FROM)
    ] = "text",
    id_field: Annotated[
        str | None, shared.option("Field that names an item, as when it was embedded.", shared.FROM)
    ] = None,
    format: shared.Format = None,  # noqa: A002
    delimiter: shared.Delimiter = None,
    encoding: shared.Encoding = None,
    lenient: shared.Lenient = False,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Compare a collection's vectors with what was embedded. Exit status 1 where that differs.

    What counts is the newest job of each source, as the ledger has it: hashes, pieces, lengths,
    what is missing and what is left over. With FILE or --source it is what the source gives now;
    nothing is embedded.
    """
    from app.services.templates import SourceTemplate

    if file is not None and source is not None:
        raise UsageError(f"give FILE or --source, not both: {file} and --source")
    uri = file if file is not None else source
    with wiring_for(config, data) as wiring:
        if uri is None:
            found = wiring.collections.verify(collection)
        else:
            asked = SourceTemplate(
                uri=uri,
                query=query,
                table=table,
                keyset=keyset,
                where=where,
                text_field=text_field,
                id_field=id_field,
                format=format,
                delimiter=delimiter,
                encoding=encoding,
                lenient=lenient,
            )
            with wiring.launching.items(asked) as items:
                found = wiring.collections.verify(collection, items.items())
    if as_json:
        faults = {name: {"count": n, "keys": keys} for name, (n, keys) in found.faults.items()}
        render.json_document(
            {
                "collection": found.collection,
                "against": found.against,
                "compared": found.compared,
                "vectors": found.vectors,
                "sound": found.sound,
                "faults": faults,
            }
        )
    else:
        _print(found)
    if not found.sound:
        raise typer.Exit(render.FAILED)


def _print(found: Verified) -> None:
    typer.echo(
        f"{found.collection}: {found.vectors:,} vectors against {found.compared:,} items of "
        f"{found.against}"
    )
    for fault, (count, keys) in found.faults.items():
        typer.echo(f"  {count:,} {_SAID.get(fault, fault)}: {', '.join(keys[:5])}")
    if found.sound:
        typer.echo("  nothing is wrong")


def reembed(
    collection: Name,
    model: Annotated[str, typer.Option(help="The model that makes the new vectors.")],
    into: Annotated[
        str | None,
        typer.Option(help="Name of the new collection; default: COLLECTION--MODEL."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end.")] = False,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Embed a collection again with another model, into a new one beside it.

    Searches go on in the old one until `giveway embeddings swap`. Texts come from the ledger.
    """
    from app.cli.parts import bell
    from app.cli.parts.job_view import print_job, succeeded
    from app.cli.parts.watching import watch

    with wiring_for(config, data) as wiring:
        request, items = wiring.collections.reembedding(collection, model, into)
        submitted = wiring.submission.submit(request, items)
        target = str(submitted.job.params["collection"])
        wiring.collections.mark_replacement(target, collection)
        bell.ring(wiring, submitted.job.pool)
        job = submitted.job
        if as_json and not wait:
            render.json_document(
                {
                    "job": job.id,
                    "key": job.key,
                    "collection": target,
                    "total": job.total,
                    "created": submitted.created,
                }
            )
        elif not wait:
            typer.echo(f"job {job.id}: {job.total:,} items into collection {target}")
            typer.echo(f"when it is completed: giveway embeddings swap {collection}")
        else:
            view = watch(wiring.inspection, job.key)
            print_job(view)
            if not succeeded(view):
                raise typer.Exit(render.FAILED)


def swap(
    collection: Name,
    new: Annotated[
        str | None,
        typer.Option(
            "--with", metavar="COLLECTION", help="The new one; default: the one of `reembed`."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Even if it lacks items of the old one.")
    ] = False,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Put a new collection in the place of another, in one transaction; the old one is kept."""
    with wiring_for(config, data) as wiring:
        replacement, retired = wiring.collections.swap(collection, new, force=force)
    if as_json:
        render.json_document({"collection": collection, "was": replacement, "retired": retired})
        return
    typer.echo(f"{collection} is now what was {replacement}; the old one is called {retired}")
    typer.echo(f"remove the old one with: giveway embeddings delete {retired} --yes")


def index(
    collection: Name,
    drop: Annotated[bool, typer.Option("--drop", help="Drop it instead.")] = False,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Build a collection's HNSW index now; searches and writes go on meanwhile.

    It is built by itself after a bulk load, and dropped before a large one.
    """
    with wiring_for(config, data) as wiring:
        if drop:
            wiring.collections.drop_index(wiring.collections.stats(collection)[0].id)
        else:
            wiring.collections.build_index(collection)
        one = wiring.collections.stats(collection)[0]
    if as_json:
        render.json_document(
            {"collection": one.name, "indexed": one.indexed, "index_bytes": one.index_bytes}
        )
    else:
        typer.echo(f"{collection}: index: {_index_said(one)}")


def delete(
    collection: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Really.")] = False,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Remove a collection and its vectors."""
    if not yes:
        raise UsageError(f"this removes every vector of {collection!r}; say --yes")
    with wiring_for(config, data) as wiring:
        count = wiring.collections.delete(collection)
    if as_json:
        render.json_document({"collection": collection, "removed": count})
    else:
        typer.echo(f"{collection}: {count:,} vectors removed")
