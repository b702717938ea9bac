"""Schedules and their runs as JSON documents and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import typer

from app.cli import render
from app.domain.schedules import Schedule
from app.domain.zones import zone_named
from app.services.schedule_runs import Launched
from app.services.scheduling import Next
from app.storage.schedule_run_store import Run


def document(schedule: Schedule, upcoming: Sequence[Next]) -> dict[str, Any]:
    """What `schedules list --json` prints of each."""
    rule = schedule.rule
    return {
        "name": schedule.name,
        "state": schedule.state.value,
        "cron": rule.cron,
        "timezone": rule.timezone,
        "missed": rule.missed.value,
        "missed_within_s": rule.missed_within_s,
        "overlap": rule.overlap.value,
        "jitter_s": rule.jitter_s,
        "done_by": rule.done_by,
        "created_at": schedule.created_at,
        "next": next_document(upcoming[0]) if upcoming else None,
        "job": dict(schedule.template),
    }


def next_document(one: Next) -> dict[str, Any]:
    """A time to come: by the clocks of its zone and in UTC, and what the clocks do to it."""
    return {"local": one.local.isoformat(), "utc": _utc(one.at), "note": one.note}


def run_document(schedule: Schedule, run: Run) -> dict[str, Any]:
    """A run with the state of its job."""
    return {
        "local": _local(schedule, run.nominal_at),
        "utc": _utc(run.nominal_at),
        "due_at": run.due_at,
        "state": run.state.value,
        "reason": run.reason,
        "attempt": run.attempt,
        "launched_at": run.launched_at,
        "job": run.job_id,
        "key": run.job_key,
        "job_state": run.job_state,
    }


def launched_document(done: Launched) -> dict[str, Any]:
    """What became of a run that a person asked for."""
    return {
        "schedule": done.schedule,
        "utc": _utc(done.nominal_at),
        "state": done.state.value,
        "reason": done.reason,
        "job": done.job and done.job.id,
        "key": done.job and done.job.key,
        "job_state": done.job and done.job.state.value,
    }


def print_schedule(schedule: Schedule, upcoming: Sequence[Next]) -> None:
    """A page of facts."""
    rule, template = schedule.rule, schedule.template
    render.facts(
        [
            ("schedule", schedule.name),
            ("state", schedule.state.value),
            ("cron", f"{rule.cron}  {rule.timezone}"),
            ("job", f"{template['kind']}, source {template['source']['uri']}"),
            ("missed", f"{rule.missed}, within {render.span(rule.missed_within_s)}"),
            ("overlap", rule.overlap.value),
            ("jitter", render.span(rule.jitter_s) if rule.jitter_s else None),
            ("done by", rule.done_by),
            ("next", _said(upcoming[0]) if upcoming else "never again"),
        ]
    )


def print_schedules(found: Sequence[tuple[Schedule, Sequence[Next]]]) -> None:
    """A row a schedule."""
    render.table(
        ("name", "state", "cron", "timezone", "kind", "next"),
        [
            (
                one.name,
                one.state.value,
                one.rule.cron,
                one.rule.timezone,
                str(one.template["kind"]),
                upcoming[0].local.isoformat(" ", "minutes") if upcoming else "-",
            )
            for one, upcoming in found
        ],
    )


def print_next(schedule: Schedule, upcoming: Sequence[Next]) -> None:
    """A line a time."""
    if schedule.state != "active":
        render.note(f"schedule {schedule.name} is {schedule.state}: these times pass by")
    for one in upcoming:
        typer.echo(_said(one))


def print_history(schedule: Schedule, runs: Sequence[Run]) -> None:
    """A row a run."""
    render.table(
        ("time", "run", "job", "job is", "why"),
        [
            (
                _local(schedule, run.nominal_at),
                run.state.value,
                run.job_key or "-",
                run.job_state or "-",
                run.reason or "",
            )
            for run in runs
        ],
    )


def _said(one: Next) -> str:
    note = f"  ({one.note})" if one.note else ""
    return f"{one.local.isoformat(' ', 'minutes')}  {_utc(one.at)}{note}"


def _local(schedule: Schedule, at: datetime) -> str:
    return at.astimezone(zone_named(schedule.rule.timezone)).isoformat()


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
