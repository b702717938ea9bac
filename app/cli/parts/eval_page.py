"""An evaluation run, or two compared, as one page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources
from itertools import islice
from typing import Any

import orjson
from jinja2 import Environment, StrictUndefined

from app.cli.parts import eval_chart as chart
from app.cli.parts.eval_view import Verdict, figure, interval, probability
from app.services.evaluation import Pair, Run, Shown

_TEMPLATE = "eval.html.jinja"
_MOST_ITEMS = 200
_MOST_CHARACTERS = 600


def run_page(run: Run, shown: Iterable[Any], judged: Verdict) -> str:
    """The page of one run: figures, charts, and the first items that are not wholly right."""
    metrics = run.summary.metrics
    intervals = chart.whiskers(
        "Mean and 95 % interval", [(n, m.mean, m.low, m.high, 0) for n, m in metrics.items()]
    )
    spreads = [
        chart.histogram(f"Scores: {name}", _values(run, name))
        for name, metric in metrics.items()
        if metric.correct is None and metric.scored
    ]
    items = list(islice((_item(row) for row in shown if _is_faulty(row)), _MOST_ITEMS))
    return _rendered(
        title=f"Evaluation {run.job.key}",
        runs=[run],
        metrics=metrics,
        charts=[intervals],
        histograms=spreads,
        items=items,
        most_items=_MOST_ITEMS,
        pair=None,
        flipped={},
        judged=judged,
    )


def pair_page(pair: Pair, judged: Verdict, flipped: Mapping[str, Shown]) -> str:
    """The page of two runs: both with their intervals, the difference, and the flips with their
    texts."""
    first, second = pair.first.summary.metrics, pair.second.summary.metrics
    names = list(pair.comparison.metrics)
    both: list[chart.Figure] = []
    for name in names:
        for number, made in enumerate((first[name], second[name])):
            which = "first" if number == 0 else "second"
            both.append((f"{name}, {which}", made.mean, made.low, made.high, number))
    changes = [
        (name, one.difference, one.low, one.high, 2)
        for name, one in pair.comparison.metrics.items()
    ]
    return _rendered(
        title=f"Evaluation {pair.second.job.key} against {pair.first.job.key}",
        runs=[pair.first, pair.second],
        metrics={},
        charts=[
            chart.whiskers("Mean and 95 % interval", both),
            chart.whiskers("Difference, second less first", changes, around_nought=True),
        ],
        histograms=[],
        items=[],
        most_items=_MOST_ITEMS,
        pair=pair,
        judged=judged,
        flipped=flipped,
    )


def _rendered(**values: Any) -> str:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        {"figure": figure, "probability": probability, "whole": lambda n: f"{n:,}", "cut": _cut}
    )
    text = (resources.files("app.cli.parts") / _TEMPLATE).read_text(encoding="utf-8")
    sizes = {"width": chart.WIDTH, "left": chart.LEFT, "bar_height": chart.BAR_HEIGHT}
    return environment.from_string(text).render(interval=interval, **sizes, **values)


def _values(run: Run, name: str) -> list[float]:
    found = (item.marks[name].value for item in run.items if name in item.marks)
    return [value for value in found if value is not None]


def _is_faulty(row: Any) -> bool:
    if row.status != "done":
        return True
    scores = (one for given in row.output["scores"].values() for one in given)
    return any(one.get("value") is None or one["value"] < 1 for one in scores)


def _item(row: Any) -> dict[str, Any]:
    output = row.output or {"answers": [], "scores": {}}
    scores = {
        name: [figure(one.get("value")) if "state" not in one else one["state"] for one in given]
        for name, given in output["scores"].items()
    }
    return {
        "key": row.key,
        "question": _cut(row.question),
        "expected": _cut(row.expected),
        "answers": [_cut(answer) for answer in output["answers"]] or [f"({row.code})"],
        "scores": [f"{name} {', '.join(said)}" for name, said in scores.items()],
    }


def _cut(value: Any) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} …"
