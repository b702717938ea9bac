"""The figures of one run: errors and invalid judgements are counted, never averaged in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.domain.evaluation.intervals import of_mean, of_rate
from app.domain.evaluation.runs import MOST_UNSCORED, Marks, RunItem, Standing


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric over a run. `mean` is over items, each the mean of its repeats; `low` and `high`
    are its interval, by `method`; None: too few items. `correct` counts items with 1, of a rate.
    `spread` is how far the mean moves from one repeat to the next (standard deviation), `unsteady`
    how many items do; None without repeats.
    """

    mean: float | None
    low: float | None
    high: float | None
    method: str
    correct: int | None
    scored: int
    errors: int
    invalid: int
    repeats: int
    spread: float | None
    unsteady: int | None


@dataclass(frozen=True, slots=True)
class Summary:
    """A run. `n` = scored + errors + invalid + empty + pending; `codes` count why items have no
    score."""

    n: int
    scored: int
    errors: int
    invalid: int
    empty: int
    pending: int
    codes: Mapping[str, int]
    metrics: Mapping[str, Metric]


def summarised(items: Sequence[RunItem], rates: Mapping[str, bool]) -> Summary:
    """What a run says. `rates`: its metrics, and whether their values are 0 and 1 only."""
    standing = Counter(item.standing for item in items)
    return Summary(
        n=len(items),
        scored=standing[Standing.SCORED],
        errors=standing[Standing.ERROR],
        invalid=standing[Standing.INVALID],
        empty=standing[Standing.EMPTY],
        pending=standing[Standing.PENDING],
        codes=dict(Counter(code for item in items for code in _codes(item)).most_common()),
        metrics={name: _metric(name, items, rate=rate) for name, rate in rates.items()},
    )


def refusal(summary: Summary, most: float = MOST_UNSCORED) -> str | None:
    """Why the run gives no verdict; None: it gives one."""
    if summary.pending:
        return f"{summary.pending:,} of {summary.n:,} items have no result yet"
    lost = summary.errors + summary.invalid
    if summary.scored == 0:
        return "no item was scored"
    if lost <= most * summary.n:
        return None
    why = ", ".join(f"{code} {count:,}" for code, count in summary.codes.items())
    return (
        f"{lost:,} of {summary.n:,} items ({lost / summary.n:.1%}) have no score, more than "
        f"{most:.0%}: {why}"
    )


def shortfalls(summary: Summary, least: Mapping[str, float]) -> list[str]:
    """A sentence for each metric whose mean is under what is asked. KeyError: not a metric."""
    found = {name: summary.metrics[name].mean for name in least}
    return [
        f"{name} is {'unknown' if mean is None else f'{mean:.4f}'}, under {least[name]:g}"
        for name, mean in found.items()
        if mean is None or mean < least[name]
    ]


def _metric(name: str, items: Sequence[RunItem], *, rate: bool) -> Metric:
    none = Marks((), (), ())
    answered = [i for i in items if i.standing not in (Standing.EMPTY, Standing.PENDING)]
    marks = [item.marks.get(name, none) for item in answered]
    standing = Counter(one.standing for one in marks)
    values = [value for one in marks if (value := one.value) is not None]
    correct = sum(value == 1.0 for value in values) if rate else None
    repeats = max((len(one.values) for one in marks), default=0)
    is_rate = correct is not None and repeats == 1
    interval = of_rate(correct or 0, len(values)) if is_rate else of_mean(values)
    return Metric(
        mean=sum(values) / len(values) if values else None,
        low=interval.low,
        high=interval.high,
        method=interval.method,
        correct=correct,
        scored=standing[Standing.SCORED],
        errors=standing[Standing.ERROR],
        invalid=standing[Standing.INVALID],
        repeats=repeats,
        spread=_spread(marks, repeats),
        unsteady=sum(len(set(one.scored)) > 1 for one in marks) if repeats > 1 else None,
    )


def _spread(marks: Sequence[Marks], repeats: int) -> float | None:
    """The standard deviation between the means of the repeats."""
    if repeats < 2:
        return None
    means = []
    for number in range(repeats):
        found = [one.values[number] for one in marks if number < len(one.values)]
        scored = [value for value in found if value is not None]
        if scored:
            means.append(sum(scored) / len(scored))
    return float(np.std(means, ddof=1)) if len(means) > 1 else None


def _codes(item: RunItem) -> list[str]:
    """Why an item that should have scores has none, or not all."""
    if item.standing not in (Standing.ERROR, Standing.INVALID):
        return []
    if item.code is not None:
        return [item.code]
    return [
        next((code for code in one.codes if code), "unknown")
        for one in item.marks.values()
        if one.standing is not Standing.SCORED
    ]
