"""What a calibration measured and concluded, as a JSON document and as pages of figures."""

from __future__ import annotations

from typing import Any

import typer

from app.cli import render
from app.domain.calibration.findings import Knee
from app.domain.calibration.fitting import ServerFit
from app.domain.calibration.measured import Idle, Measured, RateStep
from app.domain.calibration.proposal import Findings
from app.services.calibration import Subject
from app.settings import EndpointSettings, PoolSettings, Settings


def document(chosen: Subject, measured: Measured, found: Findings) -> dict[str, Any]:
    """What `calibrate --json` prints."""
    knee, fit = found.knee, found.fit
    return {
        "pool": chosen.spec.pool,
        "endpoint": chosen.spec.name,
        "model": chosen.chat_model,
        "embed_model": chosen.embed_model,
        "target_p95_ms": measured.target_p95_ms,
        "idle": {
            "calls": measured.idle.calls,
            "p50_ms": measured.idle.p50_ms,
            "p95_ms": measured.idle.p95_ms,
            "first_token_p95_ms": measured.idle.first_token_p95_ms,
            "per_token_p95_ms": measured.idle.per_token_p95_ms,
            "output_tokens": measured.idle.output_tokens,
        },
        "concurrency": [
            {
                "in_flight": level.running,
                "tokens_per_s": level.tokens_per_s,
                "step_ms": level.step_ms,
                "prompt_tokens_per_step": level.prompt_tokens_per_step,
            }
            for level in measured.levels
        ],
        "prompts": [
            {"tokens": point.prompt_tokens, "first_token_ms": point.first_token_ms}
            for point in measured.prompts
        ],
        "rates": [_rate(step, measured.target_p95_ms) for step in measured.steps],
        "batches": [
            {
                "items": size.items,
                "tokens": size.tokens,
                "call_ms": size.call_ms,
                "items_per_s": size.items_per_s,
            }
            for size in measured.sizes
        ],
        "saturation": found.saturation,
        "knee": None if knee is None else {"rps": knee.rps, "reached": knee.reached},
        "server_model": None if fit is None else _model(fit),
        "batch_bound_ms": found.batch_bound_ms,
        "proposal": {"pool": found.proposal.pool, "endpoint": found.proposal.endpoint},
    }


def _rate(step: RateStep, target_ms: float) -> dict[str, Any]:
    return {
        "rps": step.rps,
        "calls": len(step.calls),
        "p50_ms": step.quantile_ms(0.50),
        "p95_ms": step.p95_ms,
        "first_token_p95_ms": step.first_token_p95_ms,
        "per_token_p95_ms": step.per_token_p95_ms,
        "most_in_flight": step.most_in_flight,
        "errors": step.errors,
        "gave_up": step.gave_up,
        "on_target": step.keeps(target_ms),
    }


def _model(fit: ServerFit) -> dict[str, Any]:
    return {
        "fixed_ms": fit.fixed_ms,
        "per_running_ms": fit.per_running_ms,
        "per_prompt_token_ms": fit.per_prompt_token_ms,
        "overhead_ms": fit.overhead_ms,
        "typical_error": fit.typical_error,
        "r_squared": fit.r_squared,
        "points": [
            {
                "kind": point.kind,
                "at": point.at,
                "measured_ms": point.measured_ms,
                "fitted_ms": point.fitted_ms,
            }
            for point in fit.points
        ],
    }


def show(chosen: Subject, measured: Measured, found: Findings, settings: Settings) -> None:
    """The figures, and what follows."""
    _levels(measured, found.fit)
    _rates(measured)
    _sizes(measured)
    spec = chosen.spec
    render.facts(
        [
            ("endpoint", f"{spec.name} in pool {spec.pool}, {chosen.chat_model}"),
            ("one alone", _alone(measured.idle)),
            ("target", f"P95 {render.ms(measured.target_p95_ms)}"),
            ("knee", _knee(found.knee)),
            ("throughput", _throughput(measured, found)),
            ("people", _people(found)),
            ("server model", None if found.fit is None else _sentence(found.fit)),
            ("micro-batch", _batch(found)),
        ]
    )
    typer.echo("")
    _proposal(chosen, found, settings)


def _alone(idle: Idle) -> str:
    return (
        f"P95 {render.ms(idle.p95_ms)}: {render.ms(idle.first_token_p95_ms)} to the first "
        f"of {idle.output_tokens:.0f} tokens, then {idle.per_token_p95_ms:.1f} ms each"
    )


def _levels(measured: Measured, fit: ServerFit | None) -> None:
    fitted = {} if fit is None else {p.at: p.fitted_ms for p in fit.points if p.kind == "step"}
    render.table(
        ("in flight", "tokens/s", "step", "model says"),
        [
            (
                str(level.running),
                f"{level.tokens_per_s:,.0f}",
                f"{level.step_ms:.1f} ms",
                f"{fitted[level.running]:.1f} ms" if level.running in fitted else "-",
            )
            for level in measured.levels
        ],
        right=("in flight", "tokens/s", "step", "model says"),
    )
    typer.echo("")


def _rates(measured: Measured) -> None:
    headings = ("requests/s", "sent", "P50", "P95", "first token P95", "per token P95", "most")
    render.table(
        (*headings, "on target"),
        [
            (
                f"{step.rps:.1f}",
                str(len(step.calls)),
                render.ms(step.quantile_ms(0.50)),
                render.ms(step.p95_ms),
                render.ms(step.first_token_p95_ms),
                "-" if step.per_token_p95_ms is None else f"{step.per_token_p95_ms:.1f} ms",
                str(step.most_in_flight),
                _verdict(step, measured.target_p95_ms),
            )
            for step in measured.steps
        ],
        right=headings,
    )
    typer.echo("")


def _verdict(step: RateStep, target_ms: float) -> str:
    if step.errors:
        return f"no: {step.errors} failed"
    if step.gave_up:
        return "no: they piled up"
    return "yes" if step.keeps(target_ms) else "no"


def _sizes(measured: Measured) -> None:
    if not measured.sizes:
        return
    headings = ("texts a call", "tokens", "call", "texts/s")
    render.table(
        headings,
        [
            (str(s.items), f"{s.tokens:,}", f"{s.call_ms:.0f} ms", f"{s.items_per_s:,.0f}")
            for s in measured.sizes
        ],
        right=headings,
    )
    typer.echo("")


def _knee(knee: Knee | None) -> str:
    match knee:
        case None:
            return "not even the lowest rate keeps the target"
        case Knee(rps=rps, reached=True):
            return f"{rps:.1f} requests a second; past it the P95 leaves the target"
        case Knee(rps=rps):
            return f"not reached: {rps:.1f} requests a second keep the target"


def _throughput(measured: Measured, found: Findings) -> str:
    if found.saturation == measured.levels[-1].running:
        return f"still gains at {found.saturation} in flight, the most that was tried"
    return f"gains little past {found.saturation} in flight"


def _people(found: Findings) -> str:
    many = found.proposal.people_capacity
    if many is None:
        return "never so many in flight that they alone came near the target"
    return f"{many} in flight come near the target without any batch"


def _sentence(fit: ServerFit) -> str:
    return (
        f"a step takes {fit.fixed_ms:.2f} ms + {fit.per_running_ms:.3f} ms a request "
        f"+ {fit.per_prompt_token_ms:.4f} ms a prompt token (typical error {fit.typical_error:.1%})"
    )


def _batch(found: Findings) -> str | None:
    size = found.micro_batch
    if size is None:
        return None
    return (
        f"{size.items} texts a call: {size.call_ms:.0f} ms, {size.items_per_s:,.0f} texts/s "
        f"(bound: half the first-token target, {found.batch_bound_ms:.0f} ms)"
    )


def _proposal(chosen: Subject, found: Findings, settings: Settings) -> None:
    pool = settings.pool(chosen.spec.pool)
    endpoint = next(one for one in settings.endpoints if one.name == chosen.spec.name)
    rows: list[tuple[str, dict[str, int | float], PoolSettings | EndpointSettings | None]] = [
        (f"pool {chosen.spec.pool}", found.proposal.pool, pool),
        (f"endpoint {chosen.spec.name}", found.proposal.endpoint, endpoint),
    ]
    render.table(
        ("where", "setting", "now", "proposed"),
        [
            (where, name, _plain(getattr(now, name, None)), _plain(value))
            for where, values, now in rows
            for name, value in values.items()
        ],
        right=("now", "proposed"),
    )


def _plain(value: float | None) -> str:
    return "not set" if value is None else f"{value:g}"
