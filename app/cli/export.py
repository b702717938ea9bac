"""`giveway export` and `giveway results`: what was made, as a file."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from typing import Annotated, Any

import typer

from app import clock
from app.cli import render
from app.cli.common import DEFAULT_DATA, Config, Data, JsonFlag, wiring_for
from app.errors import UsageError

PANEL = "Collections"

Output = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help="- is standard output.")
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        help="jsonl or csv; default: told from the file's ending, else jsonl.",
        show_default=False,
    ),
]
Rows = Generator[Mapping[str, Any], None, None]


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(export)
    app.command(rich_help_panel="Jobs")(results)


def export(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION")],
    output: Output = "-",
    format: Format = None,  # noqa: A002
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Write a collection's vectors: key, hash, model, vector; by key.

    The file is there as a whole or not at all. --json prints a summary, so it wants --output.
    """
    _check(output, as_json=as_json)
    with wiring_for(config, data) as wiring:
        rows = wiring.inspection.vectors(collection)
        summary = _written(_vectors(rows), ("key", "hash", "model", "vector"), output, format)
    _report({"collection": collection, **summary}, as_json=as_json)


def results(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Its key or its id.")],
    output: Output = "-",
    format: Format = None,  # noqa: A002
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Write a job's results: key, status, code, error, tokens, output; in the file's order."""
    _check(output, as_json=as_json)
    columns = ("key", "status", "code", "error", "tokens", "output")
    with wiring_for(config, data) as wiring:
        found = wiring.inspection.job(job).job
        rows = (row for row in wiring.inspection.results(found.id))
        summary = _written(rows, columns, output, format)
    _report({"job": found.id, "key": found.key, **summary}, as_json=as_json)


def _check(output: str, *, as_json: bool) -> None:
    if as_json and output == "-":
        raise UsageError("--json prints a summary; name a file for the rows with --output")


def _vectors(rows: Any) -> Rows:
    import numpy as np

    for key, content_hash, model, vector in rows:
        # Stored as 32-bit floats: written as such they take half the digits.
        numbers = np.asarray(vector, dtype=np.float32)
        yield {"key": key, "hash": content_hash, "model": model, "vector": numbers}


def _written(
    rows: Rows, columns: Sequence[str], output: str, format_: str | None
) -> dict[str, Any]:
    from app.cli.parts.progress import Steps
    from app.storage.sinks.registry import choose
    from app.storage.sinks.writing import whole

    sink = choose(output, format_)
    began, count, size_bytes = clock.monotonic_s(), 0, 0
    with closing(rows), Steps() as steps, whole(output) as stream:
        steps.begin("writing", None, "rows")
        for block, rows_in_it in sink.blocks(rows, columns):
            stream.write(block)
            count += rows_in_it
            size_bytes += len(block)
            steps.at(count)
    seconds = round(clock.monotonic_s() - began, 3)
    return {
        "format": sink.name,
        "output": output,
        "rows": count,
        "bytes": size_bytes,
        "seconds": seconds,
    }


def _report(summary: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        render.json_document(summary)
        return
    rows, size_mb, took = summary["rows"], summary["bytes"] / 1e6, summary["seconds"]
    render.note(f"{rows:,} rows, {size_mb:,.1f} MB, in {took:.1f} s")
