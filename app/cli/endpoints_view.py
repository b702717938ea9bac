"""Drawing endpoints and the checks of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from app.cli import render

if TYPE_CHECKING:
    from app.domain.routing import EndpointSpec
    from app.inference.trying import Check
    from app.storage.fleet_store import Faring

_HEADINGS = (
    *("NAME", "POOL", "KIND", "ROLE", "STATE", "RUNNING", "DONE", "FAILED", "MEAN", "PACE"),
    "MODELS",
)
_RIGHT = ("RUNNING", "DONE", "FAILED", "MEAN", "PACE")


_SHOWN = frozenset({"name", "pool", "kind", "base_url", "role", "models", "max_concurrency"})


def document(one: Faring, spec: EndpointSpec | None) -> dict[str, Any]:
    """An endpoint as JSON; times in milliseconds, `failure_rate` and `mean_ms` null if unknown.

    `declared` holds what else is declared of it: limits, budgets, prices, the name of its key.
    """
    declared = {} if spec is None else asdict(spec)
    return {
        "name": one.name,
        "pool": one.pool,
        "kind": one.kind,
        "base_url": one.base_url,
        "role": one.role,
        "models": list(one.models),
        "added": one.added,
        "state": one.health.word,
        "code": one.code,
        "until": one.until,
        "running": one.running,
        "max_concurrency": one.max_concurrency,
        "finished": one.finished,
        "failed": one.failed,
        "failure_rate": one.failure_rate,
        "mean_ms": None if one.mean_s is None else round(one.mean_s * 1000, 1),
        "pace": one.health.pace,
        "declared": {name: value for name, value in declared.items() if name not in _SHOWN},
    }


def print_endpoints(found: Sequence[Faring]) -> None:
    """A table; counts are those of the last five minutes."""
    if not found:
        typer.echo("no endpoints yet: declare [[endpoints]], or `giveway endpoints add`")
        return
    render.table(_HEADINGS, [_row(one) for one in found], right=_RIGHT)


def _row(one: Faring) -> list[str]:
    rate = one.failure_rate
    failed = "-" if rate is None else f"{one.failed:,} ({rate:.1%})" if one.failed else "0"
    state = one.health.word
    return [
        one.name,
        one.pool,
        one.kind,
        one.role,
        f"{state} ({one.code})" if one.code and state not in ("ok", "slow") else state,
        f"{one.running}/{one.max_concurrency}",
        f"{one.finished:,}",
        failed,
        render.ms(None if one.mean_s is None else one.mean_s * 1000),
        "-" if one.health.pace is None else f"{one.health.pace:.1f}x",
        ", ".join(one.models),
    ]


def check_document(check: Check) -> dict[str, Any]:
    """A check as JSON."""
    return {
        "name": check.name,
        "ok": check.ok,
        "needed": check.needed,
        "detail": check.detail,
        "ms": check.ms,
    }


def print_check(check: Check) -> None:
    """One line: ok, no (work goes on without it), or FAILED."""
    word = "ok" if check.ok else "FAILED" if check.needed else "no"
    typer.echo(f"{word:<7} {check.name}: {check.detail} ({check.ms:,.0f} ms)")
