"""The report as tables on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import typer

from app.cli import render
from app.domain.reports import EndpointReport, Percentiles, PoolReport, Report

_EVENTS_SHOWN = 20
_MOVED = "limit_moved"


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
        _table(name, ("when", "what", "about", "facts"), event_rows(events)[-_EVENTS_SHOWN:])
    typer.echo(f"\ntokens {tokens(report)}   {money_of(report)}")


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
            *(tokens(one), money(one.money, priced=one.priced)),
        )


def _job_rows(report: Report) -> Iterable[tuple[str, ...]]:
    for one in report.jobs:
        done = f"{one.done:,} of {one.total:,} ({share(one.share)})"
        tokens = f"{one.prompt_tokens + one.completion_tokens:,}"
        yield (
            one.key,
            one.kind,
            one.state,
            done,
            f"{one.failed:,}",
            tokens,
            money(one.money, priced=report.priced),
        )


def money(amount: float, *, priced: bool) -> str:
    """An amount; a dash where nothing has a price, for then nought says nothing."""
    return f"{amount:,.4f}" if priced or amount else "-"


def money_of(report: Report) -> str:
    """What all of it cost, in words."""
    if not report.priced and not report.money:
        return "no prices set"
    return f"money {report.money:,.4f}"


def event_rows(events: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str, str]]:
    """When, what, about whom, and its facts; oldest first. A pool's limit that moves again and
    again, with nothing between, is one row."""
    rows = []
    for (_, about), run in groupby(events, _run_of):
        listed = list(run)
        if len(listed) == 1 or about is None:
            rows += [_event_row(event) for event in listed]
        else:
            rows.append(_moves_row(listed))
    return rows


def _run_of(event: Mapping[str, Any]) -> tuple[str, str | None]:
    """What a run of events has in common; None: they are told one by one."""
    folds = event["type"] == _MOVED
    return str(event["type"]), event["pool"] if folds else None


def _event_row(event: Mapping[str, Any]) -> tuple[str, str, str, str]:
    job = None if event["job_id"] is None else f"job {event['job_id']}"
    about = " ".join(str(x) for x in (event["pool"], event["endpoint"], job) if x is not None)
    facts = ", ".join(f"{name} {_fact(value)}" for name, value in event["facts"].items())
    return render.moment(event["at"]) or "", str(event["type"]).replace("_", " "), about, facts


def _moves_row(moves: Sequence[Mapping[str, Any]]) -> tuple[str, str, str, str]:
    facts = [move["facts"] for move in moves]
    limits = [one["limit"] for one in facts]
    pressures = [one["pressure"] for one in facts if one.get("pressure") is not None]
    reasons = Counter(str(one["reason"]) for one in facts)
    parts = [f"from {facts[0]['before']} to {limits[-1]}, between {min(limits)} and {max(limits)}"]
    if pressures:
        parts.append(f"pressure {_fact(min(pressures))} to {_fact(max(pressures))}")
    parts.append(", ".join(f"{reason} {n}" for reason, n in reasons.most_common()))
    when = f"{render.moment(moves[0]['at'])} to {moves[-1]['at'].astimezone():%H:%M:%S}"
    return when, f"limit moved {len(moves)} times", str(moves[0]["pool"]), "; ".join(parts)


def _fact(value: Any) -> str:
    """A number to three digits; all else as it is."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _table(
    name: str, headings: tuple[str, ...], rows: Iterable[tuple[str, ...]], right: Iterable[str] = ()
) -> None:
    listed = list(rows)
    if listed:
        typer.echo(f"\n{name}")
        render.table(headings, listed, list(right))
