"""The report as tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import typer

from app.cli import render
from app.domain.reports import EndpointReport, Percentiles, PoolReport, Report

_EVENTS_SHOWN = 20


def print_report(report: Report) -> None:
    """Everything, the newest events last."""
    typer.echo(f"the last {render.span(report.since_s)}, up to {render.moment(report.at)}")
    for pool in report.pools:
        typer.echo("")
        _pool(pool)
    _table("endpoints", _ENDPOINT_HEADINGS, _endpoint_rows(report), _ENDPOINT_HEADINGS[3:])
    _table("jobs", ("job", "kind", "state", "done", "failed", "tokens", "money"), _job_rows(report))
    for job in report.jobs:
        if job.waits is not None:
            typer.echo(f"{job.key} waits: {job.waits} ({job.waits_code})")
    _table(
        "errors",
        ("at", "code", "count"),
        ((e.whose, e.code, f"{e.count:,}") for e in report.errors),
    )
    for name, events in (("scaling", report.scaling), ("events", report.events)):
        shown = map(event_row, events[-_EVENTS_SHOWN:])
        _table(name, ("when", "what", "about", "facts"), shown)
    typer.echo(f"\ntokens {tokens(report)}   money {report.money:,.4f}")


def tokens(of: Report | EndpointReport) -> str:
    """How many, and whether some of them are a guess."""
    if not of.rough_tokens:
        return f"{of.tokens:,}"
    rough = "all" if of.rough_tokens == of.tokens else f"{of.rough_tokens:,}"
    return f"{of.tokens:,} ({rough} rough)"


def _pool(pool: PoolReport) -> None:
    waits = pool.backlog
    people = pool.people
    render.facts(
        [
            ("pool", pool.name),
            ("limit", f"{pool.limit} of {pool.total - pool.reserve} ({pool.reason})"),
            ("in flight", f"{pool.batch_in_flight} batch, {pool.interactive_in_flight} people"),
            ("backlog", f"{waits.items:,} items, {waits.requests:,} requests, {waits.jobs} jobs"),
            ("oldest wait", f"{waits.jobs_wait_s:.1f} s jobs, {waits.people_wait_s:.1f} s people"),
            ("wanted", None if pool.wanted is None else f"{pool.wanted} more endpoints"),
            ("people", f"{people.requests:,} requests, {people.failed:,} failed"),
            ("on target", share(people.on_target)),
            ("queue", _three(people.queue_ms)),
            ("first token", _three(people.first_token_ms)),
            ("whole", f"{_three(people.whole_ms)} (target {pool.target_p95_ms:,.0f} ms at P95)"),
        ]
    )


def share(value: float | None) -> str:
    """A share in percent; a dash where there is none."""
    return "-" if value is None else f"{100 * value:.1f} %"


def _three(of: Percentiles) -> str:
    return "  ".join(f"P{n} {render.ms(v)}" for n, v in ((50, of.p50), (95, of.p95), (99, of.p99)))


_ENDPOINT_HEADINGS = (
    *("endpoint", "role", "state", "running", "used", "finished", "failed", "failure rate"),
    *("mean", "tokens", "money"),
)


def _endpoint_rows(report: Report) -> Iterable[tuple[str, ...]]:
    for one in report.endpoints:
        running = one.batch_in_flight + one.interactive_in_flight
        yield (
            *(one.name, one.role or "-", one.state),
            f"{running} / {'-' if one.max_concurrency is None else one.max_concurrency}",
            share(one.utilisation),
            *(f"{one.finished:,}", f"{one.failed:,}", share(one.failure_rate)),
            render.ms(one.mean_ms),
            *(tokens(one), f"{one.money:,.4f}"),
        )


def _job_rows(report: Report) -> Iterable[tuple[str, ...]]:
    for one in report.jobs:
        done = f"{one.done:,} of {one.total:,} ({share(one.share)})"
        tokens = f"{one.prompt_tokens + one.completion_tokens:,}"
        yield one.key, one.kind, one.state, done, f"{one.failed:,}", tokens, f"{one.money:,.4f}"


def event_row(event: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """When, what, about whom, and its facts."""
    job = None if event["job_id"] is None else f"job {event['job_id']}"
    about = " ".join(str(x) for x in (event["pool"], event["endpoint"], job) if x is not None)
    facts = ", ".join(f"{name} {value}" for name, value in event["facts"].items())
    return render.moment(event["at"]) or "", str(event["type"]).replace("_", " "), about, facts


def _table(
    name: str, headings: tuple[str, ...], rows: Iterable[tuple[str, ...]], right: Iterable[str] = ()
) -> None:
    listed = list(rows)
    if listed:
        typer.echo(f"\n{name}")
        render.table(headings, listed, list(right))
