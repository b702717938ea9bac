"""`--dry-run`: what a job would take, and what each figure rests on."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from app.cli import render

if TYPE_CHECKING:
    from app.domain.estimates import Figure
    from app.services.estimating import Estimate
    from app.services.templates import JobTemplate
    from app.wiring import Wiring

_FIGURES = ("prompt_tokens", "completion_tokens", "seconds", "money")


def estimate(wiring: Wiring, template: JobTemplate, key: str | None, *, as_json: bool) -> None:
    """Read the source, say what the job would take, write nothing."""
    from app.cli.parts.progress import Steps
    from app.cli.parts.submitting import report_skipped, watched

    with Steps() as steps, wiring.launching.items(template.source) as items:
        watched(items, steps)
        wiring.launching.check(template, key, items)
        found = wiring.estimating.estimate(template, items)
        report = items.report
    report_skipped(report)
    if as_json:
        render.json_document(document(found))
        return
    render.facts(_lines(found))
    typer.echo("nothing was written; leave --dry-run out to submit it")


def document(found: Estimate) -> dict[str, Any]:
    """The estimate, each figure followed by its basis."""
    plain = asdict(found)
    for name in _FIGURES:
        figure = plain.pop(name)
        plain[name], plain[f"{name}_basis"] = figure["value"], figure["basis"]
    return plain


def _lines(found: Estimate) -> list[tuple[str, str | None]]:
    from app.domain.pricing import shown

    kept_back = {
        "blank": found.empty,
        "refused without a call": found.refused,
        "unchanged": found.unchanged,
        "bad lines skipped": found.skipped_lines,
    }
    apart = ", ".join(f"{n:,} {what}" for what, n in kept_back.items() if n)
    figures: list[tuple[str, Figure, str]] = [
        ("prompt tokens", found.prompt_tokens, _number(found.prompt_tokens)),
        ("answer tokens", found.completion_tokens, _number(found.completion_tokens)),
        ("time", found.seconds, _span(found.seconds)),
        ("money", found.money, "?" if found.money.value is None else shown(found.money.value)),
    ]
    return [
        ("kind", found.kind),
        ("model", found.model and f"{found.model} in pool {found.pool}"),
        ("collection", found.collection),
        ("items", f"{found.items:,}" + (f" ({apart})" if apart else "")),
        ("to send", f"{found.to_send:,} in {found.calls:,} calls"),
        *((name, f"{value} ({figure.basis})") for name, figure, value in figures),
    ]


def _number(figure: Figure) -> str:
    return "?" if figure.value is None else f"{figure.value:,.0f}"


def _span(figure: Figure) -> str:
    return "?" if figure.value is None else render.span(figure.value)
