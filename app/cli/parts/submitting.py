"""Submitting a file as a job: load it, ring for it, say what it became, and perhaps wait."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from app.cli import render

if TYPE_CHECKING:
    from app.cli.parts.items import FileItems
    from app.services.submission import JobRequest, Submitted
    from app.storage.sources.base import ReadOptions
    from app.wiring import Wiring

_SHOWN_LINES = 5
_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Source:
    """A file on disk, how messages call it, and how it is read."""

    path: Path
    shown_as: str
    options: ReadOptions


def submit(
    wiring: Wiring, request: JobRequest, source: Source, *, wait: bool, as_json: bool
) -> None:
    """Submit, ring, and say what came of it; with `wait`, watch the job to its end.

    Exit status 1 where that end is not that every item succeeded.
    """
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
    wiring: Wiring, request: JobRequest, source: Source, *, wait: bool
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
