"""`giveway submit`: a file becomes a job, once."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import render
from app.cli.common import DEFAULT_DATA, Config, Data, JsonFlag, wiring_for
from app.errors import UsageError

if TYPE_CHECKING:
    from app.cli.parts.items import FileItems
    from app.services.submission import JobRequest, Submitted
    from app.storage.sources.base import ReadOptions
    from app.wiring import Wiring

PANEL = "Jobs"
ORDER = 0
_SHOWN_LINES = 5
_LOOK_S = 1.0
_WHAT, _HOW_READ, _HOW_RUN = "What is embedded", "How the file is read", "How the job runs"


def register(app: typer.Typer) -> None:
    """Add the group `submit` to `app`."""
    group = typer.Typer(no_args_is_help=True, help="Submit a job; each kind of job is a command.")
    group.command("embed")(embed)
    app.add_typer(group, name="submit")


def _option(help: str, panel: str, *names: str, **more: Any) -> Any:  # noqa: A002
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=False, **more)


def embed(
    file: Annotated[str, typer.Argument(metavar="FILE", help="CSV or JSONL; - is standard input.")],
    text_field: Annotated[str, _option("Field that is embedded; default: text.", _WHAT)] = "text",
    id_field: Annotated[
        str | None, _option("Field that names an item; default: its number in the file.", _WHAT)
    ] = None,
    collection: Annotated[
        str | None, _option("Where the vectors go; default: the file's name.", _WHAT)
    ] = None,
    model: Annotated[
        str | None, _option("Embedding model; default: the first one declared.", _WHAT)
    ] = None,
    prefix: Annotated[str, _option('Put before every text, such as "passage: ".', _WHAT)] = "",
    format: Annotated[  # noqa: A002
        str | None, _option("csv or jsonl; default: told from the file.", _HOW_READ)
    ] = None,
    delimiter: Annotated[
        str | None, _option("Of CSV; default: told from the header.", _HOW_READ)
    ] = None,
    lenient: Annotated[
        bool,
        _option("Skip bad lines and count them; default: refuse the file.", _HOW_READ, "--lenient"),
    ] = False,
    key: Annotated[
        str | None,
        _option(
            "Same key, same job, however often it is submitted; default: from the content.",
            _HOW_RUN,
        ),
    ] = None,
    name: Annotated[str | None, _option("What people call it; default: its key.", _HOW_RUN)] = None,
    priority: Annotated[int, _option("Higher goes first; default: 0.", _HOW_RUN)] = 0,
    weight: Annotated[
        float, _option("Its share among jobs of one priority; default: 1.", _HOW_RUN, min=0.001)
    ] = 1.0,
    max_in_flight: Annotated[
        int | None, _option("Most requests of this job at a time.", _HOW_RUN, min=1)
    ] = None,
    chunk_items: Annotated[
        int | None, _option("Items leased together.", _HOW_RUN, min=1, max=100_000)
    ] = None,
    wait: Annotated[
        bool,
        _option(
            "Wait for the end; exit status 1 unless it completed with no item failed.",
            _HOW_RUN,
            "--wait",
        ),
    ] = False,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Embed the texts of FILE into a collection that `giveway search` can look into.

    The job runs in the background, at the pace that people leave. Submitting the same file again
    gives the same job back; a text that has its vector already costs no call.
    """
    from app.cli.parts.items import on_disk
    from app.cli.parts.models import embedding_model
    from app.services.submission import JobRequest
    from app.storage.sources.base import ReadOptions

    options = ReadOptions(
        id_field=id_field,
        text_field=text_field,
        delimiter=delimiter,
        format=format,
        lenient=lenient,
    )
    with wiring_for(config, data) as wiring, on_disk(file, data) as (path, shown_as):
        params = {
            "model": embedding_model(wiring.pools, model),
            "collection": collection or collection_of(file),
            "prefix": prefix,
        }
        request = JobRequest(
            kind="embed",
            params=params,
            key=key,
            name=name,
            priority=priority,
            weight=weight,
            max_in_flight=max_in_flight,
            chunk_items=chunk_items,
        )
        _submit(wiring, request, _Source(path, shown_as, options), wait=wait, as_json=as_json)


def collection_of(file: str) -> str:
    """The collection that a file's vectors go to where none is named: its stem, as a name."""
    stem = Path(file).name.split(".")[0] if file != "-" else ""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-_")[:63]
    if not name:
        said = "standard input has" if file == "-" else f"{file} gives"
        raise UsageError(f"name the collection with --collection; {said} no name for one")
    return name


@dataclass(frozen=True, slots=True)
class _Source:
    path: Path
    shown_as: str
    options: ReadOptions


def _submit(
    wiring: Wiring, request: JobRequest, source: _Source, *, wait: bool, as_json: bool
) -> None:
    from app.cli.parts import bell
    from app.cli.parts.job_view import job_document, print_job, succeeded
    from app.cli.parts.watching import watch

    submitted, items = _loaded(wiring, request, source, wait=wait)
    _report_skipped(submitted, items)
    bell.ring(wiring, submitted.job.pool)
    if not wait:
        _print(submitted, items, as_json=as_json)
        return
    view = watch(wiring.inspection, str(submitted.job.key))
    if as_json:
        render.json_document(job_document(view))
    else:
        print_job(view)
    if not succeeded(view):
        raise typer.Exit(render.FAILED)


def _loaded(
    wiring: Wiring, request: JobRequest, source: _Source, *, wait: bool
) -> tuple[Submitted, FileItems]:
    """The job, loaded by us or by whoever came first.

    With `wait`, a job that somebody else is loading is submitted again each second: should they
    have crashed or given up, this process takes over.
    """
    from app.cli.parts.items import FileItems
    from app.cli.parts.progress import Steps
    from app.domain.jobs import JobState

    told = False
    with Steps() as steps:
        size = source.path.stat().st_size if source.path.is_file() else None
        reading, loading = (
            steps.step("reading", size, "bytes"),
            steps.step("loading", None, "items"),
        )
        items = FileItems(source.path, source.options, source.shown_as, reading, loading)
        while True:
            submitted = wiring.submission.submit(request, items)
            if submitted.job.state is not JobState.LOADING or not wait:
                return submitted, items
            if not told:
                render.note("loading: another submission of this job is at it; waiting")
                told = True
            threading.Event().wait(_LOOK_S)


def _report_skipped(submitted: Submitted, items: FileItems) -> None:
    report = items.report
    if not submitted.created or not report.bad:
        return
    render.note(f"skipped {report.bad:,} bad lines:")
    for sentence in report.lines[:_SHOWN_LINES]:
        render.note(f"  {sentence}")
    if report.bad > _SHOWN_LINES:
        render.note(f"  … and {report.bad - _SHOWN_LINES:,} more")


def _print(submitted: Submitted, items: FileItems, *, as_json: bool) -> None:
    job, report = submitted.job, items.report
    if as_json:
        render.json_document(
            {
                "job": job.id,
                "key": job.key,
                "name": job.name,
                "kind": job.kind,
                "state": job.state.value,
                "model": job.model,
                "pool": job.pool,
                "collection": job.params.get("collection"),
                "total": job.total,
                "created": submitted.created,
                "skipped_lines": job.skipped_lines,
                "skipped_first": list(report.lines) if submitted.created else [],
                "created_at": job.created_at,
            }
        )
        return
    what = (
        f"{job.total:,} items" if job.state != "loading" else "being loaded by another submission"
    )
    made = "created" if submitted.created else "was there already"
    typer.echo(f"job {job.id} {made}: {what}, {job.state}")
    typer.echo(f"key {job.key}")
    typer.echo(f"watch it with: giveway jobs watch {job.key}")
