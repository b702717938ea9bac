"""Pictures of runs: limit, P95 and batch work over time, and the frontier of both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from app.domain.throttle.samples import nearest_rank
from app.extras import need
from app.simulation.measure import counted
from app.simulation.results import RunResult
from app.simulation.run import Run
from app.simulation.workloads import WARM_UP_S, workload

COLOURS = ("#0b6e4f", "#c8553d", "#28536b", "#a47e1b", "#7b4b94", "#5f6b6d", "#d17a22", "#3a86a8")
_WINDOW_S = 15.0


def check() -> None:
    """MissingPart: matplotlib is not installed."""
    _pyplot()


def over_time(runs: Sequence[Run], stream: BinaryIO, ending: str) -> None:
    """One column a workload (its first seed): limit and batch, x of people, batch work."""
    plt = _pyplot()
    names = list(dict.fromkeys(run.result.workload for run in runs))
    figure, axes = plt.subplots(
        3, len(names), figsize=(5.2 * len(names), 7.6), sharex="col", squeeze=False
    )
    for column, name in enumerate(names):
        shown = [run for run in runs if run.result.workload == name]
        first = min(run.result.seed for run in shown)
        shown = [run for run in shown if run.result.seed == first]
        for run, colour in zip(shown, _colours(len(shown)), strict=True):
            _column(axes[:, column], run, colour)
        axes[0, column].set_title(f"{name}: {workload(name).about}", fontsize=9)
        axes[1, column].axhline(1.0, color="#999999", linewidth=0.8, linestyle="--")
        axes[1, column].set_ylim(0, 2.0)
        axes[2, column].set_xlabel("seconds after the warm-up")
    axes[0, 0].set_ylabel("limit on batch in flight")
    axes[1, 0].set_ylabel("people: P95, 1.0 = on target")
    axes[2, 0].set_ylabel("batch tokens per second")
    axes[0, 0].legend(fontsize=8, frameon=False)
    _save(figure, stream, ending)


def _column(axes: Any, run: Run, colour: str) -> None:
    trace, load = run.trace, workload(run.result.workload)
    times = np.asarray(trace.t) - WARM_UP_S
    seen = (times >= 0) & (times < load.duration_s - WARM_UP_S)
    style = {"color": colour, "linewidth": 1.1, "label": run.result.policy}
    axes[0].plot(times[seen], np.asarray(trace.limit)[seen], **style)
    people = counted(trace, load)
    came = np.asarray([c.submitted_at for c in people]) - WARM_UP_S
    p95 = []
    for t in times[seen]:
        low, high = np.searchsorted(came, [t - _WINDOW_S, t])
        p95.append(nearest_rank(sorted(c.x for c in people[low:high]), 0.95) or np.nan)
    axes[1].plot(times[seen], p95, **style)
    done = np.asarray(trace.batch_tokens)
    span = int(_WINDOW_S)
    rate = np.full(len(done), np.nan)
    rate[span:] = (done[span:] - done[:-span]) / _WINDOW_S
    axes[2].plot(times[seen], rate[seen], **style)


def frontier(results: Sequence[RunResult], stream: BinaryIO, ending: str) -> None:
    """One panel a workload: people on target against batch work, a dot a policy (its median)."""
    plt = _pyplot()
    names = list(dict.fromkeys(result.workload for result in results))
    figure, axes = plt.subplots(1, len(names), figsize=(4.6 * len(names), 4.2), squeeze=False)
    labels = list(dict.fromkeys(result.policy for result in results))
    families = list(dict.fromkeys(label.partition(":")[0] for label in labels))
    colour_of = dict(zip(families, _colours(len(families)), strict=True))
    for panel, name in zip(axes[0], names, strict=True):
        points = medians([result for result in results if result.workload == name])
        for family in families:
            line = sorted((w, o) for p, (w, o) in points.items() if p.partition(":")[0] == family)
            panel.plot(
                *zip(*line, strict=True), "o-", color=colour_of[family], label=family, lw=0.8
            )
        panel.set_title(f"{name}: {workload(name).about}", fontsize=9)
        panel.set_xlabel("batch work, share of the oracle's")
        panel.grid(alpha=0.25)
    axes[0, 0].set_ylabel("people on target")
    axes[0, 0].legend(fontsize=8, frameon=False)
    _save(figure, stream, ending)


def medians(results: Sequence[RunResult]) -> Mapping[str, tuple[float, float]]:
    """(work share of the oracle's, share on target) of each policy, medians over seeds."""
    points: dict[str, tuple[float, float]] = {}
    for label in dict.fromkeys(result.policy for result in results):
        mine = [result for result in results if result.policy == label]
        points[label] = (
            float(np.median([result.work_share_of_oracle for result in mine])),
            float(np.median([result.on_target for result in mine])),
        )
    return points


def _colours(count: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(count)]


def _save(figure: Any, stream: BinaryIO, ending: str) -> None:
    figure.tight_layout()
    figure.savefig(stream, format=ending.lower().removeprefix("."), dpi=110)
    _pyplot().close(figure)


def _pyplot() -> Any:
    need("charts need", "charts", ["matplotlib"])
    import matplotlib as mpl

    mpl.use("Agg")
    # The same picture for the same figures: an SVG's ids and date would differ each time.
    mpl.rcParams["svg.hashsalt"] = "giveway"
    from matplotlib import pyplot as plt

    return plt
