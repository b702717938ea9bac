"""Charts of evaluation runs: numbers to the places of an SVG. No text of anybody's passes here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, ROW, LEFT, BAR_HEIGHT = 640, 34, 190, 120
BINS = 20


@dataclass(frozen=True, slots=True)
class Whisker:
    """A dot with its interval on a line of its own; x is in pixels, None where it is not known."""

    name: str
    y: float
    at: float | None
    low: float | None
    high: float | None
    says: str
    colour: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """A tick on an axis."""

    x: float
    says: str


@dataclass(frozen=True, slots=True)
class Whiskers:
    """Figures with intervals below each other. `nought` is where 0 lies, if a line is drawn."""

    title: str
    rows: Sequence[Whisker]
    ticks: Sequence[Mark]
    height: float
    nought: float | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A column of a histogram."""

    x: float
    y: float
    width: float
    height: float
    says: str


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often which score was given."""

    title: str
    bars: Sequence[Bar]
    most: int


Figure = tuple[str, float | None, float | None, float | None, int]
"""Name, value, low, high, colour."""


def whiskers(title: str, figures: Sequence[Figure], *, around_nought: bool = False) -> Whiskers:
    """Dots with intervals: from 0 to 1, or as far to both sides of 0 as the figures reach."""
    known = [abs(v) for _, *values, _ in figures for v in values if v is not None]
    reach = _rounded(max(known, default=0.0)) if around_nought else 1.0
    least, most = (-reach, reach) if around_nought else (0.0, 1.0)

    def x(value: float | None) -> float | None:
        if value is None:
            return None
        share = (min(max(value, least), most) - least) / (most - least)
        return round(LEFT + share * (WIDTH - LEFT), 1)

    rows = [
        Whisker(name, (n + 0.5) * ROW, x(at), x(low), x(high), _said(name, at, low, high), colour)
        for n, (name, at, low, high, colour) in enumerate(figures)
    ]
    parts = [least + (most - least) * step / 4 for step in range(5)]
    ticks = [Mark(x(part) or 0.0, f"{part:.3g}") for part in parts]
    return Whiskers(title, rows, ticks, ROW * len(figures), x(0.0) if around_nought else None)


def histogram(title: str, values: Sequence[float]) -> Histogram:
    """Scores between 0 and 1 in BINS columns, 1 in the last one."""
    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, max(0, math.floor(value * BINS)))] += 1
    most = max(counts, default=0)
    wide = WIDTH / BINS
    bars = [
        Bar(
            round(n * wide + 1, 1),
            round(BAR_HEIGHT * (1 - count / most), 1),
            round(wide - 2, 1),
            round(BAR_HEIGHT * count / most, 1),
            f"{n / BINS:.2f} to {(n + 1) / BINS:.2f}: {count:,}",
        )
        for n, count in enumerate(counts)
        if count
    ]
    return Histogram(title, bars, most)


def _said(name: str, at: float | None, low: float | None, high: float | None) -> str:
    if at is None:
        return f"{name}: no figure"
    between = "" if low is None or high is None else f", {low:.4f} to {high:.4f}"
    return f"{name}: {at:.4f}{between}"


def _rounded(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten, at least a hundredth."""
    power = 10.0 ** math.floor(math.log10(max(value, 0.01)))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= value - 1e-12)
