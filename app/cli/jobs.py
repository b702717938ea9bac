"""`giveway jobs`: list, show, watch, and steer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import render
from app.cli.common import DEFAULT_DATA, Config, Data, JsonFlag, wiring_for
from app.errors import UnknownName

if TYPE_CHECKING:
    from app.domain.jobs import JobState
    from app.wiring import Wiring

PANEL = "Jobs"
ORDER = 10
_MOST_CHUNKS = 100_000

Ref = Annotated[str, typer.Argument(metavar="JOB", help="Its key or its id.")]


def register(app: typer.Typer) -> None:
    """Add the group `jobs` to `app`."""
    group = typer.Typer(no_args_is_help=True, help="See jobs, and pause, resume, cancel or retry.")
    group.command("list")(list_)
    for command in (show, watch, pause, resume, cancel, retry):
        group.command()(command)
    app.add_typer(group, name="jobs")


def list_(
    state: Annotated[
        list[str] | None, typer.Option(help="Only jobs in this state; may be given again.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The newest so many.")] = 20,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """List the newest jobs."""
    from app.cli.parts.job_view import print_jobs, summary

    states = _states(state or [])
    with wiring_for(config, data) as wiring:
        jobs = wiring.inspection.jobs(limit, states)
        why = wiring.inspection.reasons([job for job, _ in jobs])
    if as_json:
        documents = [summary(job, made, why.get(job.id)) for job, made in jobs]
        render.json_document({"jobs": documents})
    elif jobs:
        print_jobs(jobs, why)
    else:
        of_state = f" in state {', '.join(states)}" if states else ""
        typer.echo(f"no jobs{of_state}; submit one with: giveway submit embed FILE")


def _states(names: list[str]) -> tuple[JobState, ...]:
    from app.domain.jobs import JobState

    known = [state.value for state in JobState]
    for name in names:
        if name not in known:
            raise UnknownName("job state", name, known)
    return tuple(JobState(name) for name in names)


def show(
    job: Ref,
    failures: Annotated[int, typer.Option(min=0, help="Name so many failed items.")] = 5,
    chunks: Annotated[bool, typer.Option("--chunks", help="Its chunks too.")] = False,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Show one job: how far it is, what failed, and why it waits."""
    from app.cli.parts.job_view import job_document, print_job

    with wiring_for(config, data) as wiring:
        view = wiring.inspection.job(job)
        failed = wiring.inspection.failures(view.job.id, failures) if view.progress.failed else []
        listed = wiring.inspection.chunks(view.job.id, _MOST_CHUNKS) if chunks else []
        told = wiring.inspection.deliveries(view.job.id) if view.job.webhook else []
    if not as_json:
        print_job(view, failed, listed, told)
        return
    document = job_document(view) | {"failed_items": failed}
    document |= {"webhooks": told} if view.job.webhook else {}
    render.json_document(document | {"chunks": listed} if chunks else document)


def watch(
    job: Ref, as_json: JsonFlag = False, config: Config = None, data: Data = DEFAULT_DATA
) -> None:
    """Watch a job until it ends. Exit status 1 unless it completed with no item failed.

    A job that paused by itself, since its budget is spent, say, is watched no longer: it needs a
    person. One that a person paused is. Ctrl-C stops the watching, not the job.
    """
    from app.cli.parts.job_view import job_document, print_job, succeeded
    from app.cli.parts.watching import watch as watched

    with wiring_for(config, data) as wiring:
        view = watched(wiring.inspection, job)
    if as_json:
        render.json_document(job_document(view))
    else:
        print_job(view)
    if not succeeded(view):
        raise typer.Exit(render.FAILED)


def pause(
    job: Ref, as_json: JsonFlag = False, config: Config = None, data: Data = DEFAULT_DATA
) -> None:
    """Claim nothing more of a job; what is in flight ends and is kept."""
    with wiring_for(config, data) as wiring:
        _told(wiring, wiring.steering.pause(job).key, as_json=as_json)


def resume(
    job: Ref,
    budget: Annotated[
        float | None,
        typer.Option(min=0, help="New bound on the money that its calls may cost in all."),
    ] = None,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Let a paused job run again."""
    from app.cli.parts import bell

    with wiring_for(config, data) as wiring:
        moved = wiring.steering.resume(job, budget)
        bell.ring(wiring, moved.pool)
        _told(wiring, moved.key, as_json=as_json)


def cancel(
    job: Ref, as_json: JsonFlag = False, config: Config = None, data: Data = DEFAULT_DATA
) -> None:
    """End a job for good; the results so far are kept."""
    with wiring_for(config, data) as wiring:
        _told(wiring, wiring.steering.cancel(job).key, as_json=as_json)


def retry(
    job: Ref,
    code: Annotated[
        list[str] | None,
        typer.Option(help="Only items that failed so, such as rate_limited,bad_verdict."),
    ] = None,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Try failed items again, and those without a judge's verdict: all, or those with a code."""
    from app.cli.parts import bell
    from app.cli.parts.job_view import job_document

    with wiring_for(config, data) as wiring:
        codes = [one.strip() for text in code or () for one in text.split(",") if one.strip()]
        moved, again = wiring.steering.retry(job, codes or None)
        if again:
            bell.ring(wiring, moved.pool)
        view = wiring.inspection.job(moved.key)
        if as_json:
            render.json_document({"retried": again, **job_document(view)})
        elif codes and not again:
            there = ", ".join(view.failures) or "none"
            typer.echo(
                f"nothing of job {moved.key} failed with {', '.join(codes)}; its codes: {there}"
            )
        else:
            typer.echo(f"{again:,} items of job {moved.key} are tried again; it is {moved.state}")


def _told(wiring: Wiring, key: str, *, as_json: bool) -> None:
    from app.cli.parts.job_view import job_document

    view = wiring.inspection.job(key)
    if as_json:
        render.json_document(job_document(view))
    else:
        made = view.progress
        typer.echo(
            f"job {view.job.id} ({key}) is {view.job.state}: {made.done:,} of {made.total:,}"
        )
