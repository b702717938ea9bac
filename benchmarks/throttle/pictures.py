"""Pictures: what each contender gives to both sides, and loads with surges over time."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import drawing
from benchmarks.throttle.contenders import BUDGET, NO_BATCH, PRESSURE
from benchmarks.throttle.figures import Run
from benchmarks.throttle.legs import BIN_S, Leg

_PEOPLE, _BATCH, _LIMIT, _GREY = "#1f5fa8", "#f4b183", "#c2410c", "#6b7280"
_OURS = {BUDGET: "#c2410c", PRESSURE: "#d99a2b"}


def draw(runs: Sequence[Run], legs: Sequence[Leg], folder: Path, stem: str) -> list[Path]:
    """Write what there is to draw, as STEM-….svg; the files.

    Nothing without matplotlib (extra `charts`).
    """
    pyplot = drawing.pyplot()
    if pyplot is None:
        return []
    figures = [(f"{stem}-{name}.svg", figure) for name, figure in _figures(runs, legs, pyplot)]
    return drawing.save(figures, folder, pyplot)


def _figures(runs: Sequence[Run], legs: Sequence[Leg], pyplot: Any) -> list[tuple[str, Any]]:
    made = []
    if any(run.contender != NO_BATCH for run in runs):
        made.append(("frontier", _frontier(runs, pyplot)))
    for load in dict.fromkeys(leg.load.name for leg in legs if leg.load.surges):
        shown = [leg for leg in legs if leg.load.name == load and leg.samples]
        shown = [leg for leg in shown if leg.seed == shown[0].seed]
        if shown:
            target_ms = next(run.target_ms for run in runs if run.seed == shown[0].seed)
            made.append((load, _over_time(shown, target_ms, pyplot)))
    return made


def _frontier(runs: Sequence[Run], pyplot: Any) -> Any:
    """Further up: people better off. Further right: more batch work. A point is a median."""
    loads = list(dict.fromkeys(run.workload for run in runs))
    figure, row = pyplot.subplots(
        1, len(loads), figsize=(4.2 * len(loads), 3.8), squeeze=False, layout="constrained"
    )
    for axes, load in zip(row[0], loads, strict=True):
        mine = [run for run in runs if run.workload == load]
        for name in dict.fromkeys(run.contender for run in mine):
            its = [run for run in mine if run.contender == name]
            work = statistics.median(run.items_per_s for run in its)
            people = 100 * statistics.median(run.on_target for run in its)
            axes.plot(work, people, "o", color=_OURS.get(name, _GREY))
            axes.annotate(name, (work, people), (4, -10), textcoords="offset points", fontsize=7)
        axes.set_title(load)
        axes.set_xlabel("batch items a second")
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(0.15)
    row[0][0].set_ylabel("people on target (%)")
    return figure


def _over_time(legs: Sequence[Leg], target_ms: float, pyplot: Any) -> Any:
    figure, rows = pyplot.subplots(
        3,
        len(legs),
        sharex=True,
        sharey="row",
        figsize=(5.2 * len(legs), 6),
        squeeze=False,
        layout="constrained",
    )
    for column, leg in enumerate(legs):
        above, middle, below = rows[0][column], rows[1][column], rows[2][column]
        answered = [(a.due_s, a.latency_ms) for a in leg.answers if a.latency_ms is not None]
        above.plot(*zip(*answered, strict=True), ".", color=_PEOPLE, markersize=4)
        above.axhline(target_ms, color=_GREY, ls="--", lw=1)
        above.set_title(leg.contender)
        times = [s.at_s for s in leg.samples]
        flying, limits = [s.in_flight for s in leg.samples], [s.limit for s in leg.samples]
        middle.fill_between(times, flying, step="post", color=_BATCH, label="in flight")
        middle.step(times, limits, where="post", color=_LIMIT, lw=1.4, label="limit")
        middle.legend(loc="upper right", frameon=False, fontsize=8)
        rates = [n / BIN_S for n in leg.items]
        below.step([at * BIN_S for at in range(len(rates))], rates, where="post", color=_LIMIT)
        below.set_xlabel("seconds")
        for axes in (above, middle, below):
            axes.spines[["top", "right"]].set_visible(False)
            for begin, end in leg.load.surges:
                axes.axvspan(begin, end, color="#eef2f7", zorder=0)
    rows[0][0].set_ylabel("people wait (ms)")
    rows[1][0].set_ylabel("batch requests")
    rows[2][0].set_ylabel("batch items/s")
    return figure
