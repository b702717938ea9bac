"""`giveway export` and `giveway results`: what was made, as a file or in a table of yours."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app import clock
from app.cli import render
from app.cli.common import DEFAULT_DATA, Config, Data, Force, JsonFlag, wiring_for
from app.errors import UsageError

if TYPE_CHECKING:
    from app.services.exporting import Exported
    from app.services.items import Told
    from app.storage.sinks.vector_table import Target
    from app.wiring import Wiring

PANEL = "Collections"

Output = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help="- is standard output.")
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        help="jsonl, csv or parquet; default: told from the file's ending; of -, jsonl.",
        show_default=False,
    ),
]
_TABLE = "Into a table with pgvector"


def _of_table(help: str, *names: str, **more: Any) -> Any:  # noqa: A002
    return typer.Option(*names, help=help, rich_help_panel=_TABLE, show_default=False, **more)


To = Annotated[
    str | None, _of_table("A Postgres, or env:NAME, a variable with its URL.", metavar="URL")
]
Table = Annotated[str | None, _of_table("Its table; a schema may stand before it.")]
IdColumn = Annotated[str, _of_table("Column of the item's key; default: id.")]
VectorColumn = Annotated[str, _of_table("Column of the vector; default: embedding.")]
PieceColumn = Annotated[str | None, _of_table("Column of the piece, where texts were split.")]
Create = Annotated[bool, _of_table("Make the table if it is not there.", "--create")]
OnlyExisting = Annotated[
    bool, _of_table("Leave out items that the table lacks.", "--only-existing")
]


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(export)
    app.command(rich_help_panel="Jobs")(results)


def export(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION")],
    output: Output = "-",
    format: Format = None,  # noqa: A002
    to: To = None,
    table: Table = None,
    id_column: IdColumn = "id",
    vector_column: VectorColumn = "embedding",
    piece_column: PieceColumn = None,
    create: Create = False,
    only_existing: OnlyExisting = False,
    force: Force = False,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Write a collection's vectors: key (of split texts: and piece), hash, model, vector; by key.

    A file is there as a whole or not at all. --json prints a summary, so it wants --output. With
    --to they go into a table of yours: rows that are there get the new vector, others are added.
    """
    if to is not None or table is not None:
        if to is None or table is None:
            raise UsageError("--to and --table go together: which database, and which table of it")
        if output != "-" or format is not None or force:
            raise UsageError("--to writes into a table: leave --output, --format and --force out")
        from app.storage.sinks.vector_table import Target
        from app.storage.sources.origins import resolved

        target = Target(
            resolved(to), table, id_column, vector_column, piece_column, create, only_existing
        )
        with wiring_for(config, data) as wiring:
            summary = _into_table(wiring, collection, target)
        _report({"collection": collection, **summary}, as_json=as_json)
        return
    _check(output, format, force=force, as_json=as_json)
    with wiring_for(config, data) as wiring:

        def write(told: Told) -> Exported:
            return wiring.exporting.collection(collection, output, format, told)

        summary = _written(write, output)
    _report({"collection": collection, **summary}, as_json=as_json)


def results(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Its key or its id.")],
    output: Output = "-",
    format: Format = None,  # noqa: A002
    force: Force = False,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Write a job's results: key, status, code, error, tokens, output; in the file's order."""
    _check(output, format, force=force, as_json=as_json)
    with wiring_for(config, data) as wiring:
        found = wiring.inspection.job(job).job

        def write(told: Told) -> Exported:
            return wiring.exporting.results(found, output, format, told)

        summary = _written(write, output)
    _report({"job": found.id, "key": found.key, **summary}, as_json=as_json)


def _check(output: str, form: str | None, *, force: bool, as_json: bool) -> None:
    from app.services.exporting import check_file

    check_file(output, form, force=force)
    if as_json and output == "-":
        raise UsageError("--json prints a summary; name a file for the rows with --output")


def _into_table(wiring: Wiring, collection: str, target: Target) -> dict[str, Any]:
    from app.cli.parts.progress import Steps
    from app.storage.sources.urls import masked_url

    began = clock.monotonic_s()
    with Steps() as steps:
        told = steps.step("writing", None, "vectors")
        done = wiring.exporting.into_table(collection, target, told)
    return {
        "to": masked_url(target.url),
        "table": target.table,
        "rows": done.rows,
        "missing": done.missing,
        "seconds": round(clock.monotonic_s() - began, 3),
    }


def _written(write: Callable[[Told], Exported], output: str) -> dict[str, Any]:
    from app.cli.parts.progress import Steps

    began = clock.monotonic_s()
    with Steps() as steps:
        done = write(steps.step("writing", None, "rows"))
    return {
        "format": done.format,
        "output": output,
        "rows": done.rows,
        "bytes": done.size_bytes,
        "seconds": round(clock.monotonic_s() - began, 3),
    }


def _report(summary: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        render.json_document(summary)
        return
    rows, took = summary["rows"], summary["seconds"]
    size = f", {summary['bytes'] / 1e6:,.1f} MB" if "bytes" in summary else ""
    left_out = f", {summary['missing']:,} left out" if summary.get("missing") else ""
    render.note(f"{rows:,} rows{size}{left_out}, in {took:.1f} s")
