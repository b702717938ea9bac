"""The demo's picture: what people waited, and what batch was allowed, over time."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.local.demo.measured import Leg, Measured, rolling_p95
from app.local.demo.report import TITLES

_PEOPLE, _P95, _LIMIT, _FLYING, _TARGET = "#9ab8d6", "#1f5fa8", "#c2410c", "#f4b183", "#6b7280"
_WINDOW_S = 3.0


def draw(measured: Measured, path: Path) -> bool:
    """Write it, as `path` ends (.svg, .png). False: matplotlib (extra `charts`) is missing."""
    with TemporaryDirectory() as folder:
        # Else it leaves its list of fonts in the home folder.
        os.environ.setdefault("MPLCONFIGDIR", folder)
        try:
            import matplotlib
        except ImportError:
            return False
        else:
            matplotlib.use("agg")
            _draw(measured, path)
            return True
        finally:
            if os.environ["MPLCONFIGDIR"] == folder:
                del os.environ["MPLCONFIGDIR"]


def _draw(measured: Measured, path: Path) -> None:
    from matplotlib import pyplot

    # The same figures give the same file, and text stays text.
    with pyplot.rc_context({"svg.hashsalt": "giveway", "svg.fonttype": "none", "font.size": 10}):
        figure, (above, below) = pyplot.subplots(
            2, 1, sharex=True, figsize=(10, 5.4), height_ratios=(3, 2), layout="constrained"
        )
        for leg in measured.legs:
            _people(above, leg)
            _batch(below, leg)
        _frame(above, below, measured)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
        pyplot.close(figure)


def _people(axes: Any, leg: Leg) -> None:
    answered = [(a.sent_at_s, a.latency_ms) for a in leg.answers if a.latency_ms is not None]
    axes.plot(*_columns(answered), ".", color=_PEOPLE, markersize=4, label="one request")
    axes.plot(*_columns(rolling_p95(leg.answers, _WINDOW_S)), color=_P95, lw=2, label="P95 of 3 s")


def _batch(axes: Any, leg: Leg) -> None:
    if not leg.total:
        return
    times = [sample.at_s for sample in leg.samples]
    flying = [sample.in_flight for sample in leg.samples]
    limits = [sample.limit for sample in leg.samples]
    axes.fill_between(times, flying, step="post", color=_FLYING, label="batch in flight")
    axes.step(times, limits, where="post", color=_LIMIT, lw=1.8, label="limit")


def _frame(above: Any, below: Any, measured: Measured) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    above.set_yscale("log")
    above.axhline(measured.target_ms, color=_TARGET, ls="--", lw=1, label="target")
    above.set_ylabel("people wait (ms)")
    above.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    above.yaxis.set_major_formatter("{x:,.0f}")
    above.yaxis.set_minor_formatter(NullFormatter())
    below.set_ylabel("batch requests")
    below.set_xlabel("seconds")
    below.set_ylim(bottom=0)
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
        for leg in measured.legs[1:]:
            axes.axvline(leg.began_s, color="#d1d5db", lw=1)
    for leg in measured.legs:
        middle = (leg.began_s + leg.ended_s) / 2
        title = TITLES[leg.name].replace(" and a backfill, ", " and a backfill,\n")
        above.annotate(
            title,
            (middle, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
        )
    for axes in (above, below):
        handles, labels = axes.get_legend_handles_labels()
        once = dict(zip(labels, handles, strict=True))
        axes.legend(once.values(), once.keys(), loc="upper left", frameon=False, fontsize=8)


def _columns(pairs: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [at for at, _ in pairs], [value for _, value in pairs]
