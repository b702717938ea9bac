"""A pool's limit as a JSON document and as a page of facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import typer

from app.cli import render
from app.domain.throttle.readings import Reading
from app.services.inspection import PoolView


def pool_document(view: PoolView) -> dict[str, Any]:
    """What `throttle show --json` prints of a pool."""
    reading = view.reading.to_json()
    return {
        "name": view.name,
        "policy": view.policy,
        "limit": view.limit,
        "reason": view.reason,
        "pressure": view.pressure,
        "target_p95_ms": view.target_p95_ms,
        "p50_ms": view.reading.p50_ms,
        "p95_ms": view.reading.p95_ms,
        "p99_ms": view.reading.p99_ms,
        "in_flight": view.batch_in_flight,
        "batch_in_flight": view.batch_in_flight,
        "interactive_in_flight": view.interactive_in_flight,
        "interactive_waiting": view.interactive_waiting,
        "total": view.total,
        "reserve": view.reserve,
        "batch_min": view.batch_min,
        "batch_max": view.batch_max,
        "computed_at": view.computed_at,
        "valid_until": view.valid_until,
        "override": None if view.override is None else asdict(view.override),
        "tuned": dict(view.tuned),
        "kv": None if view.kv is None else asdict(view.kv),
        "reading": reading,
    }


def print_pool(view: PoolView) -> None:
    """The page of one pool."""
    seen, forced = view.reading, view.override
    render.facts(
        [
            ("pool", f"{view.name}  (total {view.total}, reserve {view.reserve})"),
            ("limit", f"{view.limit} of {view.batch_max} batch requests: {view.reason}"),
            (
                "override",
                None
                if forced is None
                else f"{forced.value} until {render.moment(forced.until)}"
                + (f", {forced.reason}" if forced.reason else ""),
            ),
            ("policy", f"{view.policy}, pressure {view.pressure:.2f} (1 is on target)"),
            ("target", f"P95 {render.ms(view.target_p95_ms)}"),
            ("tuned", tuned_text(view.tuned) or None),
            (
                "people",
                _people(seen),
            ),
            (
                "in flight",
                _in_flight(view),
            ),
            ("memory", view.kv.words if view.kv and view.kv.capacity_tokens else None),
            ("decided", render.moment(view.computed_at) or "never"),
            ("valid until", render.moment(view.valid_until)),
        ]
    )


def tuned_text(tuned: Mapping[str, Any]) -> str:
    """`batch_max=3, policy=static`; nothing where nothing is tuned."""
    return ", ".join(f"{name}={value}" for name, value in sorted(tuned.items()))


def _people(seen: Reading) -> str:
    return (
        f"P50 {render.ms(seen.p50_ms)}, P95 {render.ms(seen.p95_ms)}, P99 {render.ms(seen.p99_ms)} "
        f"in the last {seen.window_s:.0f} s ({seen.arrivals_per_s:.1f}/s)"
    )


def _in_flight(view: PoolView) -> str:
    return (
        f"{view.batch_in_flight} batch, {view.interactive_in_flight} interactive, "
        f"{view.interactive_waiting} interactive waiting"
    )


def decision_document(row: Mapping[str, Any]) -> dict[str, Any]:
    """What `throttle history --json` prints of a decision."""
    reading = row["arguments"].get("reading") or {}
    names = ("p50_ms", "p95_ms", "p99_ms", "batch_in_flight", "interactive_in_flight")
    return {
        "computed_at": row["computed_at"],
        "limit": row["value"],
        "reason": row["reason"],
        "pressure": row["pressure"],
        **{name: reading.get(name) for name in names},
        "gauges": reading.get("gauges"),
        "figures": row["result"].get("figures", {}),
    }


def print_decisions(rows: Sequence[Mapping[str, Any]]) -> None:
    """A row a decision."""
    if not rows:
        typer.echo("no decisions; does the control worker run? see: giveway status")
        return
    numbers = ("limit", "pressure", "P95", "batch", "people")
    render.table(
        ("decided", "limit", "reason", "pressure", "P95", "batch", "people"),
        [
            (
                render.moment(one["computed_at"]) or "-",
                str(one["limit"]),
                one["reason"],
                f"{one['pressure']:.2f}",
                render.ms(_number(one["p95_ms"])),
                str(one["batch_in_flight"]),
                str(one["interactive_in_flight"]),
            )
            for one in map(decision_document, rows)
        ],
        right=numbers,
    )


def _number(plain: Any) -> float | None:
    return None if plain is None else float(plain)
