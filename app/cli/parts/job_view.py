"""A job as a JSON document, as a page of facts and as a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import typer

from app import clock
from app.cli import render
from app.domain.chunks import Chunk
from app.domain.jobs import Job, JobState, Progress
from app.domain.pricing import shown
from app.domain.waiting import Hold, Waiting
from app.services.inspection import JobView


def job_document(view: JobView) -> dict[str, Any]:
    """What `jobs show --json` prints."""
    limit = {
        "limit": view.limit,
        "limit_reason": view.limit_reason,
        "tenant": view.job.tenant,
        "after": view.job.after,
        "window": view.job.window,
        "deadline_at": view.job.deadline_at,
        "expected_at": None if view.outlook is None else view.outlook.done_at,
        "late_s": None if view.outlook is None else round(view.outlook.late_s, 3),
        "failures": view.failures,
    }
    return {**summary(view.job, view.progress, view.why), **limit, "params": dict(view.job.params)}


def summary(job: Job, progress: Progress, why: Waiting | None) -> dict[str, Any]:
    """What `jobs list --json` prints of each."""
    return {
        "id": job.id,
        "key": job.key,
        "name": job.name,
        "kind": job.kind,
        "state": job.state.value,
        "reason": job.reason,
        "waits": None if why is None else why.words,
        "waits_code": None if why is None else why.code.value,
        "model": job.model,
        "pool": job.pool,
        "collection": job.params.get("collection"),
        "priority": job.priority,
        "weight": job.weight,
        "max_in_flight": job.max_in_flight,
        "total": progress.total,
        "done": progress.done,
        "unchanged": progress.unchanged,
        "empty": progress.empty,
        "failed": progress.failed,
        "retrying": progress.retrying,
        "pending": progress.pending,
        "in_flight": progress.in_flight,
        "share": round(progress.share, 6),
        "prompt_tokens": progress.prompt_tokens,
        "completion_tokens": progress.completion_tokens,
        "money": round(progress.money, 9),
        "budget": job.budget,
        "skipped_lines": job.skipped_lines,
        "deleted": job.deleted,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "elapsed_s": elapsed_s(job, clock.now()),
    }


def _waits(why: Waiting | None) -> str | None:
    """The sentence and its code, where the state does not say it all."""
    if why is None or why.code in (Hold.PAUSED, Hold.PAUSED_BY_HAND):
        return None
    return f"{why.words} ({why.code})"


def elapsed_s(job: Job, now: datetime) -> float | None:
    """Seconds since the job started, or that it took; None: it has not started."""
    if job.started_at is None:
        return None
    return round(max(0.0, ((job.finished_at or now) - job.started_at).total_seconds()), 3)


def _money(job: Job, made: Progress) -> str | None:
    """What it cost, of what it may; None: its endpoints have no prices."""
    if job.budget is None:
        return shown(made.money) if made.money else None
    return f"{shown(made.money)} of {shown(job.budget)}"


def succeeded(view: JobView) -> bool:
    """Whether a script may go on: completed, and no item failed."""
    return view.job.state is JobState.COMPLETED and view.progress.failed == 0


def print_job(
    view: JobView,
    failures: Sequence[Mapping[str, Any]] = (),
    chunks: Sequence[Chunk] = (),
    told: Sequence[Mapping[str, Any]] = (),
) -> None:
    """The page of one job."""
    job, made = view.job, view.progress
    reason = f" ({job.reason})" if job.reason else ""
    codes = ", ".join(f"{code} {count:,}" for code, count in view.failures.items())
    waits = job.state in (JobState.READY, JobState.RUNNING)
    render.facts(
        [
            ("job", f"{job.id}  {job.key}"),
            ("name", job.name if job.name != job.key else None),
            ("kind", f"{job.kind}, model {job.model}, pool {job.pool}"),
            ("collection", job.params.get("collection")),
            ("state", f"{job.state}{reason}"),
            ("waits", _waits(view.why)),
            ("deadline", _deadline(view)),
            ("items", f"{made.done + made.failed:,} of {made.total:,} ({made.share:.1%})"),
            ("unchanged", f"{made.unchanged:,} (no call was needed)" if made.unchanged else None),
            ("empty", f"{made.empty:,} (nothing to send)" if made.empty else None),
            ("failed", f"{made.failed:,}: {codes}" if made.failed else None),
            ("retrying", f"{made.retrying:,}" if made.retrying else None),
            ("deleted", f"{job.deleted:,} (no longer in the source)" if job.deleted else None),
            ("skipped", f"{job.skipped_lines:,} bad lines" if job.skipped_lines else None),
            (
                "in flight",
                f"{made.in_flight} of {view.limit} ({view.limit_reason})" if waits else None,
            ),
            ("tokens", f"{made.prompt_tokens + made.completion_tokens:,}"),
            ("money", _money(job, made)),
            ("created", render.moment(job.created_at)),
            ("started", render.moment(job.started_at)),
            ("finished", render.moment(job.finished_at)),
            ("pruned", render.moment(job.pruned_at)),
            *(("webhook", _delivery(one)) for one in told),
            ("took", render.span(elapsed_s(job, clock.now())) if job.started_at else None),
        ]
    )
    if failures:
        typer.echo("")
        rows = [(f["key"], f["code"] or "-", f["error"] or "") for f in failures]
        render.table(("failed item", "code", "error"), rows)
    if chunks:
        typer.echo("")
        print_chunks(chunks)


def _deadline(view: JobView) -> str | None:
    """When it is to be done, and when it will be where that cannot be met."""
    seen, told = view.outlook, render.moment(view.job.deadline_at)
    if seen is None or not seen.late_s:
        return told
    late = f"done about {render.moment(seen.done_at)}, {render.span(seen.late_s)} late"
    return f"{told}: {seen}; {late}"


def _delivery(one: Mapping[str, Any]) -> str:
    said = one["error"] or one["status"]
    return f"{one['state']}, attempt {one['attempt']}" + (f": {said}" if said else "")


def print_chunks(chunks: Sequence[Chunk]) -> None:
    """A row a chunk."""
    render.table(
        ("chunk", "state", "items", "ok", "failed", "attempt", "crashes", "worker", "last error"),
        [
            (
                str(chunk.no),
                chunk.state.value,
                f"{chunk.items:,}",
                f"{chunk.ok:,}",
                f"{chunk.failed:,}",
                str(chunk.attempt),
                str(chunk.crashes),
                chunk.worker or "-",
                chunk.error_code or "-",
            )
            for chunk in chunks
        ],
        right=("chunk", "items", "ok", "failed", "attempt", "crashes"),
    )


def print_jobs(jobs: Sequence[tuple[Job, Progress]], why: Mapping[int, Waiting]) -> None:
    """A row a job; below, why those wait that do."""
    render.table(
        ("id", "key", "kind", "state", "done", "total", "%", "failed", "in flight", "created"),
        [
            (
                str(job.id),
                job.key,
                job.kind,
                job.state.value,
                f"{made.done:,}",
                f"{made.total:,}",
                f"{made.share:.0%}",
                f"{made.failed:,}",
                str(made.in_flight),
                render.moment(job.created_at) or "-",
            )
            for job, made in jobs
        ],
        right=("id", "done", "total", "%", "failed", "in flight"),
    )
    for job, _ in jobs:
        if job.id in why:
            typer.echo(f"{job.key} waits: {why[job.id]} ({why[job.id].code})")
