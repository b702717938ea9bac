"""A calibration's picture: latency by rate, throughput by requests in flight, model and truth."""

from __future__ import annotations

from typing import Any, BinaryIO

from app.domain.calibration.measured import Measured
from app.domain.calibration.proposal import Findings
from app.extras import need

_P95, _P50, _KNEE, _TARGET, _MODEL = "#1f5fa8", "#9ab8d6", "#c2410c", "#6b7280", "#0b6e4f"


def check() -> None:
    """MissingPart: matplotlib is not installed."""
    _pyplot()


def draw(measured: Measured, found: Findings, stream: BinaryIO, ending: str) -> None:
    """Write it, as a file with that ending: .png or .svg."""
    pyplot = _pyplot()
    # The same figures give the same file, and text stays text.
    with pyplot.rc_context({"svg.hashsalt": "giveway", "svg.fonttype": "none", "font.size": 10}):
        figure, (rates, levels, steps, prompts) = pyplot.subplots(
            1, 4, figsize=(15, 3.8), layout="constrained", width_ratios=(1.5, 1, 1, 1)
        )
        _rates(rates, measured, found)
        _levels(levels, measured, found)
        _fit(steps, found, "step", "requests in flight", "a step of the engine (ms)")
        _fit(prompts, found, "first_token", "tokens of the prompt", "first token (ms)")
        for axes in (rates, levels, steps, prompts):
            axes.spines[["top", "right"]].set_visible(False)
            axes.margins(y=0.1)
            axes.set_ylim(bottom=0)
            axes.legend(frameon=False, fontsize=8)
        form = ending.lower().removeprefix(".")
        figure.savefig(stream, format=form, metadata={"Date": None} if form == "svg" else None)
        pyplot.close(figure)


def _rates(axes: Any, measured: Measured, found: Findings) -> None:
    seen = [step for step in measured.steps if step.p95_ms is not None]
    rates = [step.rps for step in seen]
    axes.plot(rates, [step.p95_ms for step in seen], "o-", color=_P95, label="P95")
    axes.plot(rates, [step.quantile_ms(0.5) for step in seen], "o-", color=_P50, label="P50")
    axes.axhline(measured.target_p95_ms, color=_TARGET, ls="--", lw=1, label="target")
    if found.knee is not None:
        told = "knee" if found.knee.reached else "highest rate tried"
        axes.axvline(found.knee.rps, color=_KNEE, lw=1.2, label=f"{told}, {found.knee.rps:.1f}/s")
    axes.set_xlabel("requests a second")
    axes.set_ylabel("whole request (ms)")


def _levels(axes: Any, measured: Measured, found: Findings) -> None:
    running = [level.running for level in measured.levels]
    speed = [level.tokens_per_s for level in measured.levels]
    axes.plot(running, speed, "o-", color=_P95, label="measured")
    axes.axvline(found.saturation, color=_KNEE, lw=1.2, label=f"total, {found.saturation}")
    axes.set_xlabel("requests in flight")
    axes.set_ylabel("tokens a second")


def _fit(axes: Any, found: Findings, kind: str, over: str, what: str) -> None:
    points = [] if found.fit is None else [p for p in found.fit.points if p.kind == kind]
    at = [point.at for point in points]
    axes.plot(at, [p.measured_ms for p in points], "o", color=_P95, label="measured")
    axes.plot(at, [p.fitted_ms for p in points], "-", color=_MODEL, label="server model")
    axes.set_xlabel(over)
    axes.set_ylabel(what)


def _pyplot() -> Any:
    need("charts need", "charts", ["matplotlib"])
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot
