"""The picture: milliseconds added over requests a second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import drawing
from benchmarks.people.figures import Run, added_ms
from benchmarks.people.plan import CELERY, GIVEWAY, LANE

FILE = "people-added.svg"
_COLOURS = {CELERY: "#6b7280", GIVEWAY: "#c2410c", LANE: "#1f5fa8"}


def draw(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Write it; the file. Nothing without matplotlib (extra `charts`)."""
    pyplot = drawing.pyplot()
    if pyplot is None:
        return []
    return drawing.save([(FILE, _figure(runs, pyplot))], folder, pyplot)


def _figure(runs: Sequence[Run], pyplot: Any) -> Any:
    """P50 solid, P95 dashed, next to the database; beside it, with the database away."""
    figure, (near, far) = pyplot.subplots(1, 2, figsize=(9.6, 3.8), layout="constrained")
    for name, colour in _COLOURS.items():
        its = [
            one
            for one in runs
            if one.contender == name and not one.cores_busy and one.round_trips_per_request is None
        ]
        for figure_of, style in (("p50_ms", "o-"), ("p95_ms", "s--")):
            points = _points([(one.rps, added_ms(one, runs, figure_of)) for one in its])
            if points:
                label = f"{name}, {figure_of[:3].upper()}"
                near.plot(
                    *zip(*points, strict=True), style, color=colour, label=label, ms=4, lw=1.3
                )
    near.set_xlabel("requests a second")
    near.set_ylabel("milliseconds added to direct")
    near.set_title("the database beside it", fontsize=10)
    near.legend(frameon=False, fontsize=8)
    for name, colour in _COLOURS.items():
        its = [one for one in runs if one.contender == name and one.database_rtt_ms is not None]
        its = [one for one in its if one.rps == 50 and not one.cores_busy]
        for figure_of, style in (("p50_ms", "o-"), ("p95_ms", "s--")):
            at = [(one.database_rtt_ms or 0.0, added_ms(one, runs, figure_of)) for one in its]
            points = _points(at)
            if points:
                far.plot(*zip(*points, strict=True), style, color=colour, ms=4, lw=1.3)
    far.set_xlabel("round trip to the database (ms, measured)")
    far.set_title("50 requests a second", fontsize=10)
    for axes in (near, far):
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    return figure


def _points(pairs: Sequence[tuple[float, float | None]]) -> list[tuple[float, float]]:
    return sorted((x, y) for x, y in pairs if y is not None)
