"""Evaluation runs as JSON documents and as tables, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import typer

from app.cli import render
from app.domain.evaluation.comparing import Comparison, Difference, Flip
from app.domain.evaluation.summary import Metric, Summary, shortfalls
from app.domain.jobs import Job
from app.services.evaluation import Pair, Run, Shown

PASSED, NO_THRESHOLD = "passed", "no threshold set"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`word`: passed, failed (a metric is not what was asked), refused (too few scores), or that
    nothing was asked."""

    word: str
    reasons: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the exit status is 0."""
        return self.word in (PASSED, NO_THRESHOLD)

    @property
    def style(self) -> str:
        """The word as a class of the page: green only where a threshold was met."""
        return "quiet" if self.word == NO_THRESHOLD else self.word


def verdict(
    runs: Sequence[Run],
    judged: Summary,
    least: Mapping[str, float],
    differences: Mapping[str, Difference] | None = None,
) -> Verdict:
    """What the runs come to; `judged` is the one that `least` is asked of, and those `differences`
    that have a margin have to be shown to be within it."""
    refused = [f"{run.job.key}: {run.refused}" for run in runs if run.refused is not None]
    if refused:
        return Verdict("refused", tuple(refused))
    asked = {n: one for n, d in (differences or {}).items() if (one := d.equivalence) is not None}
    short = shortfalls(judged, least)
    short += [
        f"{name} is not shown to be no worse by {one.margin:g} (p {probability(one.p_worse)})"
        for name, one in asked.items()
        if not one.no_worse
    ]
    if short:
        return Verdict("failed", tuple(short))
    return Verdict(PASSED if least or asked else NO_THRESHOLD)


def run_document(run: Run, judged: Verdict) -> dict[str, Any]:
    """What `eval run --json` and `eval show --json` print."""
    return {**_figures(run), "verdict": judged.word, "reasons": list(judged.reasons)}


def pair_document(pair: Pair, judged: Verdict, flipped: Mapping[str, Shown]) -> dict[str, Any]:
    """What `eval compare --json` prints: every flip with its texts, not only those on a screen."""
    plain = asdict(pair.comparison)
    for name, one in pair.comparison.metrics.items():
        metric = plain["metrics"][name]
        metric["flips"] = [_flip(flip, flipped[flip.key]) for flip in one.flips]
        if one.equivalence is not None:
            metric["equivalence"] |= {"p": one.equivalence.p, "verdict": one.equivalence.word}
    return {
        "first": _figures(pair.first),
        "second": _figures(pair.second),
        **plain,
        "verdict": judged.word,
        "reasons": list(judged.reasons),
    }


def _flip(flip: Flip, shown: Shown) -> dict[str, Any]:
    return {
        "key": flip.key,
        "before": flip.before,
        "after": flip.after,
        "question": shown.question,
        "expected": shown.expected,
        "first": list(shown.first),
        "second": list(shown.second),
    }


def _figures(run: Run) -> dict[str, Any]:
    job, summary = run.job, run.summary
    return {
        "key": job.key,
        "job": job.id,
        "state": job.state.value,
        "model": job.model,
        **asdict(summary),
    }


def print_run(run: Run, judged: Verdict) -> None:
    """The figures of one run."""
    summary = run.summary
    counted = ("scored", "errors", "invalid", "empty", "pending")
    told = [f"{getattr(summary, name):,} {name}" for name in counted if getattr(summary, name)]
    render.facts(
        [
            ("run", f"{run.job.key} (job {run.job.id}, {run.job.state}{_reason(run.job)})"),
            ("model", run.job.model),
            ("items", f"{summary.n:,}: {', '.join(told) or 'none'}"),
            ("why", _codes(summary)),
        ]
    )
    typer.echo("")
    repeated = any(metric.repeats > 1 for metric in summary.metrics.values())
    headings = ["metric", "mean", "95 % interval", "correct", "scored", "errors", "invalid"]
    more = ["repeats", "spread", "unsteady"] if repeated else []
    rows = [
        [name, *_row(metric), *(_repeats(metric) if repeated else [])]
        for name, metric in summary.metrics.items()
    ]
    render.table([*headings, *more], rows, right=[*headings[1:], *more])
    _print_verdict(judged)


def _reason(job: Job) -> str:
    return f": {job.reason}" if job.reason else ""


def _row(metric: Metric) -> list[str]:
    correct = "-" if metric.correct is None else f"{metric.correct:,}"
    counts = [f"{metric.scored:,}", f"{metric.errors:,}", f"{metric.invalid:,}"]
    return [figure(metric.mean), interval(metric.low, metric.high), correct, *counts]


def _repeats(metric: Metric) -> list[str]:
    unsteady = "-" if metric.unsteady is None else f"{metric.unsteady:,}"
    return [f"{metric.repeats:,}", figure(metric.spread), unsteady]


def print_pair(pair: Pair, judged: Verdict, most_flips: int) -> None:
    """Two runs, and the items that flipped."""
    made = pair.comparison
    apart = {
        "only in the first": made.only_first,
        "only in the second": made.only_second,
        "with another question or expected answer": made.changed,
    }
    left_out = ", ".join(f"{count:,} {what}" for what, count in apart.items() if count)
    render.facts(
        [
            ("first", f"{pair.first.job.key} ({pair.first.job.model})"),
            ("second", f"{pair.second.job.key} ({pair.second.job.model})"),
            ("items", f"{made.common:,} in both" + (f"; left out: {left_out}" if left_out else "")),
            ("repeats", _repeated(made)),
        ]
    )
    typer.echo("")
    headings = ["metric", "first", "second", "difference", "95 % interval", "p", "lost", "won", "n"]
    render.table(
        [*headings, "test"],
        [[name, *_difference(one), one.test] for name, one in made.metrics.items()],
        right=headings[1:],
    )
    _print_margins(made)
    for name, one in made.metrics.items():
        if one.flips and most_flips:
            typer.echo("")
            shown = one.flips[:most_flips]
            typer.echo(f"{name}: {len(one.flips):,} flipped, {len(shown):,} shown")
            rows = [[flip.key, figure(flip.before), figure(flip.after)] for flip in shown]
            render.table(["item", "first", "second"], rows, right=["first", "second"])
    _print_verdict(judged)


def _repeated(made: Comparison) -> str | None:
    """That some rows are one item."""
    if made.clusters == made.common:
        return None
    return f"{made.common:,} rows are {made.clusters:,} items; each counts once"


def _print_margins(made: Comparison) -> None:
    asked = [(n, one.equivalence) for n, one in made.metrics.items() if one.equivalence is not None]
    if not asked:
        return
    typer.echo("")
    columns = ["metric", "margin", "p worse", "p better", "shown", "test"]
    rows = [
        [n, f"{e.margin:g}", probability(e.p_worse), probability(e.p_better), e.word, e.test]
        for n, e in asked
    ]
    render.table(columns, rows, right=columns[1:4])


def _difference(one: Difference) -> list[str]:
    change = "-" if one.difference is None else f"{one.difference:+.4f}"
    figures = [
        figure(one.first),
        figure(one.second),
        change,
        interval(one.low, one.high),
        probability(one.p),
    ]
    return [*figures, f"{one.lost:,}", f"{one.won:,}", f"{one.n:,}"]


def _print_verdict(judged: Verdict) -> None:
    typer.echo("")
    typer.echo(f"verdict: {judged.word}")
    for reason in judged.reasons:
        typer.echo(f"  {reason}")


def figure(value: float | None) -> str:
    """Four decimals; a dash where there is none."""
    return "-" if value is None else f"{value:.4f}"


def probability(value: float | None) -> str:
    """Three digits, however small; a dash where there is none."""
    return "-" if value is None else f"{value:.3g}"


def interval(low: float | None, high: float | None) -> str:
    """`0.4871 to 0.5412`; a dash where there is none."""
    return "-" if low is None or high is None else f"{low:.4f} to {high:.4f}"


def _codes(summary: Summary) -> str | None:
    return ", ".join(f"{code} {count:,}" for code, count in summary.codes.items()) or None
