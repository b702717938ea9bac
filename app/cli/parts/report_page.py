"""The report as one page of HTML: styles and charts within, nothing asked of any other address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined

from app.cli import render
from app.cli.parts.report_chart import HEIGHT, WIDTH, Chart, bar_chart, line_chart
from app.cli.parts.report_view import event_rows, money, money_of, share, tokens
from app.domain.reports import PoolReport, Report

_TEMPLATE = "report.html.jinja"


def page(report: Report) -> str:
    """The page. Whatever it shows of names and keys is escaped."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters.update(
        {"share": share, "ms": render.ms, "span": render.span, "moment": render.moment}
        | {"tokens": tokens, "money": money, "money_of": money_of}
    )
    text = (resources.files("app.cli.parts") / _TEMPLATE).read_text(encoding="utf-8")
    columns = round(report.since_s / report.column_s)
    return environment.from_string(text).render(
        report=report,
        pools=[(pool, _pool_charts(pool, columns)) for pool in report.pools],
        charts=[_utilisation(report, columns), _errors(report, columns)],
        events=[
            (name, event_rows(listed)[::-1])
            for name, listed in (("Scaling", report.scaling), ("Events", report.events))
        ],
        width=WIDTH,
        height=HEIGHT,
    )


def _pool_charts(pool: PoolReport, columns: int) -> Sequence[Chart]:
    limits = _spread({point.column: point.limit for point in pool.limits}, columns)
    points = {point.column: point for point in pool.people_over_time}
    whole = _spread({c: p.whole_p95_ms for c, p in points.items()}, columns)
    first = _spread({c: p.first_token_p95_ms for c, p in points.items()}, columns)
    items = {point.column: point.items_per_s for point in pool.batch_over_time}
    return [
        line_chart("Limit on batch requests in flight", "", columns, [("limit", limits)]),
        line_chart(
            "What people wait, at P95, and what batch gets done",
            " ms",
            columns,
            [("whole answer", whole), ("first token", first)],
            goal=pool.target_p95_ms,
            right=(" items/s", [("batch", _spread(items, columns))]),
        ),
    ]


def _utilisation(report: Report, columns: int) -> Chart:
    series = [
        (one.name, [100 * value for value in one.utilisation_over_time])
        for one in report.endpoints
        if one.utilisation_over_time is not None
    ]
    return line_chart("Places in use, by endpoint", " %", columns, series, top=100.0)


def _errors(report: Report, columns: int) -> Chart:
    series = [
        (f"{one.code} ({one.whose})", list(one.over_time))
        for one in report.errors
        if one.over_time is not None
    ]
    return bar_chart("Errors, by code", columns, series)


def _spread(values: Mapping[int, Any], columns: int) -> list[float | None]:
    return [values.get(column) for column in range(columns)]
