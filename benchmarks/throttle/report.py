"""The figures for people to read, and throttle.json for everything else."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.throttle.figures import Run
from benchmarks.throttle.run import Outcome, Plan
from benchmarks.throttle.targets import FACTOR

Column = tuple[str, Callable[[Run], float | None], str]

COLUMNS: tuple[Column, ...] = (
    ("P50 ms", lambda run: run.p50_ms, ",.0f"),
    ("P95 ms", lambda run: run.p95_ms, ",.0f"),
    ("P99 ms", lambda run: run.p99_ms, ",.0f"),
    ("P95 to alone", lambda run: _ratio(run.p95_ms, run.p95_ms_without_batch), ".2f"),
    ("on target", lambda run: run.on_target, ".1%"),
    ("items/s", lambda run: run.items_per_s, ",.4g"),
    ("of dedicated", lambda run: run.work_share_of_dedicated, ".2f"),
    ("of best cap", lambda run: run.work_share_of_best_cap, ".2f"),
    ("cut s", lambda run: run.cut_s, ".1f"),
    ("settled s", lambda run: run.settle_s, ".1f"),
    ("recovered s", lambda run: run.recovery_s, ".1f"),
    ("machine busy", lambda run: run.cpu_share, ".0%"),
)
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
"""Between them `make bench-throttle` writes its tables into a page."""


def document(outcome: Outcome, plan: Plan) -> dict[str, Any]:
    """What throttle.json holds."""
    chosen = [run.target_ms for run in outcome.runs]
    return {
        "runs": [asdict(run) for run in outcome.runs],
        "target_ms": statistics.median(chosen) if chosen else None,
        "target_factor": FACTOR,
        "dedicated_items_per_s": outcome.dedicated_items_per_s,
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "busy": statistics.fmean(run.cpu_share for run in outcome.runs),
        },
        "scene": plan.scene.name,
        "endpoint": asdict(plan.scene.endpoint),
        "plan": {
            **{field.name: getattr(plan, field.name) for field in fields(plan)},
            "scene": plan.scene.name,
            "phases": {load.name: [asdict(one) for one in load.phases] for load in plan.loaded},
        },
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "failures": list(outcome.failures),
        "took_s": round(outcome.seconds),
    }


def beside(earlier: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """`now` with the runs of other seeds that an earlier document of the same scene has; of each
    sitting it keeps when that was, how long it took and how busy the machine was."""
    if earlier["scene"] != now["scene"] or earlier["endpoint"] != now["endpoint"]:
        raise SystemExit("the file to keep is of another scene; name another one with --json")
    seeds = {run["seed"] for run in now["runs"]}
    kept = [run for run in earlier["runs"] if run["seed"] not in seeds]
    runs = kept + now["runs"]
    sittings = earlier.get("sittings") or [_sitting(earlier)]
    return {
        **now,
        "runs": runs,
        "target_ms": statistics.median(run["target_ms"] for run in runs),
        "sittings": [*sittings, _sitting(now)],
    }


def _sitting(document: dict[str, Any]) -> dict[str, Any]:
    wanted = ("measured_at", "took_s", "dedicated_items_per_s", "failures")
    seeds = sorted({run["seed"] for run in document["runs"]})
    busy = document["machine"]["busy"]
    return {"seeds": seeds, "busy": busy} | {key: document[key] for key in wanted}


def show(runs: Sequence[Run], console: Console) -> None:
    """A table a load: medians over seeds, with the range where there are several."""
    for workload in dict.fromkeys(run.workload for run in runs):
        mine = [run for run in runs if run.workload == workload]
        target_ms = statistics.median(run.target_ms for run in mine)
        table = Table(title=f"{workload}: target {target_ms:,.0f} ms", title_justify="left")
        table.add_column("contender")
        table.add_column("keeps it", justify="center")
        for title, _, _ in COLUMNS:
            table.add_column(title, justify="right")
        for contender, its in _grouped(mine):
            kept = sum(run.keeps_target for run in its)
            cells = [over_seeds(map(figure, its), form) for _, figure, form in COLUMNS]
            table.add_row(contender, _kept(kept, len(its)), *cells)
        console.print(table)


def markdown(runs: Sequence[Run]) -> str:
    """The same tables for the documentation."""
    lines: list[str] = []
    for workload in dict.fromkeys(run.workload for run in runs):
        mine = [run for run in runs if run.workload == workload]
        target_ms = statistics.median(run.target_ms for run in mine)
        titles = ["contender", "keeps it", *(title for title, _, _ in COLUMNS)]
        lines += ["", f"### {workload.capitalize()}, target {target_ms:,.0f} ms", ""]
        lines += [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
        for contender, its in _grouped(mine):
            kept = _kept(sum(run.keeps_target for run in its), len(its))
            cells = [over_seeds(map(figure, its), form) for _, figure, form in COLUMNS]
            lines.append(f"| {' | '.join([contender, kept, *cells])} |")
    return "\n".join(lines).strip() + "\n"


def page_with(page: str, tables: str) -> str:
    """`page` with `tables` between its marks; as it is where it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        return page
    return f"{before}{BEGIN}\n\n{tables.strip()}\n\n{END}{after}"


def over_seeds(values: Iterable[float | None], form: str) -> str:
    """Median, and least to most where they differ; a dash where it is unknown in some seed."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    middle = format(statistics.median(known), form)
    least, most = format(min(known), form), format(max(known), form)
    return middle if least == most else f"{middle} ({least}–{most})"


def _grouped(runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    names = dict.fromkeys(run.contender for run in runs)
    return [(name, [run for run in runs if run.contender == name]) for name in names]


def _kept(kept: int, of: int) -> str:
    return ("yes" if kept else "no") if of == 1 else f"{kept} of {of}"


def _ratio(over: float | None, under: float | None) -> float | None:
    return None if over is None or not under else over / under
