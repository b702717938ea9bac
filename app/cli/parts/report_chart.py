"""Charts of the report: numbers to the points of an SVG. No text of anybody's passes here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

WIDTH, HEIGHT = 640, 150
COLOURS = 8
"""So many series are told apart; those that follow begin anew."""


@dataclass(frozen=True, slots=True)
class Line:
    """One series. `path` is an SVG path; `last` its newest value, as text."""

    name: str
    colour: int
    path: str
    last: str
    dots: Sequence[tuple[float, float]] = ()
    """Values without a neighbour: where they stand."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A piece of a column: where it stands, and what it says when pointed at."""

    colour: int
    x: float
    y: float
    width: float
    height: float
    says: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A line across, at `y`, with its value."""

    y: float
    says: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Everything that is drawn. `about` is its text for those who cannot see it."""

    title: str
    about: str
    lines: Sequence[Line]
    bars: Sequence[Bar]
    ticks: Sequence[Tick]
    legend: Sequence[tuple[int, str]]
    goal_y: float | None = None
    right_ticks: Sequence[Tick] = ()
    """Of the series that have a scale of their own, on the right."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(line.path for line in self.lines) and not self.bars


def line_chart(
    title: str,
    unit: str,
    columns: int,
    series: Sequence[tuple[str, Sequence[float | None]]],
    goal: float | None = None,
    top: float | None = None,
    right: tuple[str, Sequence[tuple[str, Sequence[float | None]]]] = ("", ()),
) -> Chart:
    """A line a series, with a gap where it has no value. `goal`: a dashed line across. `right`: a
    unit, and series that have a scale of their own, on the same time axis."""
    values = [v for _, points in series for v in points if v is not None]
    highest = top or _rounded(max([*values, goal or 0.0], default=0.0))
    other_unit, others = right
    other_values = [v for _, points in others for v in points if v is not None]
    other_highest = _rounded(max(other_values, default=0.0))
    lines = [
        _line(name, n, points, columns, scale, of)
        for n, (name, points, scale, of) in enumerate(
            [(name, points, highest, unit) for name, points in series]
            + [(name, points, other_highest, other_unit) for name, points in others]
        )
    ]
    ends = "; ".join(f"{line.name} {line.last}" for line in lines)
    return Chart(
        title,
        f"{title}, oldest on the left; now: {ends}",
        lines,
        (),
        _ticks(highest, unit),
        [(line.colour, line.name) for line in lines],
        None if goal is None else _y(goal, highest),
        _ticks(other_highest, other_unit) if other_values else (),
    )


def bar_chart(title: str, columns: int, series: Sequence[tuple[str, Sequence[int]]]) -> Chart:
    """Columns, the series on top of each other."""
    sums = [sum(points[c] for _, points in series) for c in range(columns)]
    highest = _rounded(float(max(sums, default=0)))
    bars: list[Bar] = []
    wide = WIDTH / columns
    for column in range(columns):
        base = 0.0
        for n, (name, points) in enumerate(series):
            if points[column]:
                low, high = _y(base, highest), _y(base + points[column], highest)
                says = f"{name}: {points[column]:,}"
                x = round(column * wide + 0.5, 2)
                bars.append(
                    Bar(n % COLOURS, x, high, round(wide - 1, 2), round(low - high, 2), says)
                )
                base += points[column]
    told = "; ".join(f"{name} {sum(points):,}" for name, points in series)
    legend = [(n % COLOURS, name) for n, (name, _) in enumerate(series)]
    return Chart(title, f"{title}; in all: {told}", (), bars, _ticks(highest, ""), legend)


def _line(
    name: str,
    number: int,
    points: Sequence[float | None],
    columns: int,
    highest: float,
    unit: str,
) -> Line:
    alone = [
        (round((column + 0.5) * WIDTH / columns, 1), _y(value, highest))
        for column, value in enumerate(points)
        if value is not None
        and (column == 0 or points[column - 1] is None)
        and (column + 1 == len(points) or points[column + 1] is None)
    ]
    path, last = _path(points, columns, highest), _last(points, unit)
    return Line(name, number % COLOURS, path, last, alone)


def _path(points: Sequence[float | None], columns: int, highest: float) -> str:
    """Moves and lines; a lone value is a short dash, since a point has no length."""
    wide, parts, was_drawn = WIDTH / columns, [], False
    for column, value in enumerate(points):
        if value is None:
            was_drawn = False
            continue
        x, y = round((column + 0.5) * wide, 1), _y(value, highest)
        parts.append(f"L{x} {y}" if was_drawn else f"M{round(x - 1, 1)} {y}L{x} {y}")
        was_drawn = True
    return "".join(parts)


def _last(points: Sequence[float | None], unit: str) -> str:
    known = [v for v in points if v is not None]
    return f"{known[-1]:,.4g}{unit}" if known else "-"


def _y(value: float, highest: float) -> float:
    return round(HEIGHT * (1 - min(value, highest) / highest), 2)


def _ticks(highest: float, unit: str) -> list[Tick]:
    return [
        Tick(_y(highest * part, highest), f"{highest * part:,.4g}{unit}") for part in (0, 0.5, 1)
    ]


def _rounded(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= value - 1e-9 * ceil(value))
