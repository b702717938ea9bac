"""Submitting a template as a job: load it, ring for it, say what it became, and perhaps wait."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import typer

from app.cli import render

if TYPE_CHECKING:
    from app.cli.parts.progress import Steps
    from app.domain.waiting import Waiting
    from app.services.items import SourceItems
    from app.services.submission import Submitted
    from app.services.templates import JobTemplate
    from app.storage.sources.reading import Report
    from app.wiring import Wiring

_SHOWN_LINES = 5
_LOOK_S = 1.0


def submit(
    wiring: Wiring, template: JobTemplate, key: str | None, *, wait: bool, as_json: bool
) -> None:
    """Submit, ring, and say what came of it; with `wait`, watch the job to its end.

    Exit status 1 where that end is not that every item succeeded, or where it is stuck.
    """
    from app.cli.parts import bell
    from app.cli.parts.job_view import job_document, print_job, succeeded
    from app.cli.parts.watching import watch
    from app.domain.waiting import NEEDS_SOMEBODY

    submitted, report = loaded(wiring, template, key, wait=wait)
    if submitted.created:
        report_skipped(report)
    bell.ring(wiring, submitted.job.pool)
    why = wiring.inspection.reasons([submitted.job]).get(submitted.job.id)
    why = why if why is not None and why.code in NEEDS_SOMEBODY else None
    if why is not None:
        render.note(f"the job is kept, but waits: {why.words} ({why.code})")
    if not wait:
        _print(submitted, why, report, as_json=as_json)
        return
    view = watch(wiring.inspection, str(submitted.job.key))
    if as_json:
        render.json_document(job_document(view))
    else:
        print_job(view)
    if not succeeded(view):
        raise typer.Exit(render.FAILED)


def loaded(
    wiring: Wiring, template: JobTemplate, key: str | None, *, wait: bool
) -> tuple[Submitted, Report]:
    """The job, loaded by us or by whoever came first.

    With `wait`, a job that somebody else is loading is submitted again each second: should they
    have crashed or given up, this process takes over.
    """
    from app.cli.parts.progress import Steps
    from app.domain.jobs import JobState

    _warn_of_a_budget_without_prices(wiring, template)
    launching, told = wiring.launching, False
    with Steps() as steps, launching.items(template.source) as items:
        watched(items, steps)
        while True:
            submitted = launching.submit(template, key, items)
            if submitted.job.state is not JobState.LOADING or not wait:
                return submitted, items.report
            if not told:
                render.note("loading: another submission of this job is at it; waiting")
                told = True
            threading.Event().wait(_LOOK_S)


def _warn_of_a_budget_without_prices(wiring: Wiring, template: JobTemplate) -> None:
    """Say that a budget stops nothing where no call costs anything that we know of."""
    from app.domain.routing import serving
    from app.kinds.base import checked, models_of
    from app.kinds.registry import kind

    if template.budget is None:
        return
    one = kind(template.kind)
    models = models_of(one, checked(one, template.params))
    specs = [spec for name in models for spec in serving(name, wiring.pools_with(name).endpoints)]
    if not any(spec.input_price or spec.output_price for spec in specs):
        render.note(
            f"the budget stops nothing: no endpoint of {', '.join(models) or 'this job'} has an "
            "input_price or output_price"
        )


def warn_of_slips(template: JobTemplate) -> None:
    """Say what is lawful in the parameters and most likely a slip, before anything is paid for."""
    from app.kinds.base import checked, warning_of
    from app.kinds.registry import kind

    one = kind(template.kind)
    if (said := warning_of(one, checked(one, template.params))) is not None:
        render.note(f"warning: {said}")


def watched(items: SourceItems, steps: Steps) -> None:
    """Let `steps` show how far the reading and the loading are."""
    size_bytes = items.size_bytes()
    unit = "records" if size_bytes is None else "bytes"
    items.tell(steps.step("reading", size_bytes, unit), steps.step("loading", None, "items"))


def report_skipped(report: Report) -> None:
    """Name the first bad lines that were passed over."""
    if not report.bad:
        return
    render.note(f"skipped {report.bad:,} bad lines:")
    for sentence in report.lines[:_SHOWN_LINES]:
        render.note(f"  {sentence}")
    if report.bad > _SHOWN_LINES:
        render.note(f"  … and {report.bad - _SHOWN_LINES:,} more")


def _print(submitted: Submitted, why: Waiting | None, report: Report, *, as_json: bool) -> None:
    job = submitted.job
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
                "waits": why and why.words,
                "waits_code": why and why.code.value,
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
