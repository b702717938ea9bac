"""Events of a report as people read them: rounded, and folded where the limit only moved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from app.cli.parts.report_view import event_rows, money

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def moved(second: int, before: int, limit: int, pool: str = "main", **facts: Any) -> dict[str, Any]:
    told = {"limit": limit, "before": before, "pressure": 0.7705919999999999, "reason": "growing"}
    at = NOON + timedelta(seconds=second)
    common = {"at": at, "type": "limit_moved", "endpoint": None, "job_id": None}
    return {**common, "pool": pool, "facts": {**told, **facts}}


def opened(second: int) -> dict[str, Any]:
    return {**moved(second, 0, 0), "type": "endpoint_opened", "endpoint": "gpu", "facts": {}}


def test_numbers_are_rounded():
    ((_, what, about, facts),) = event_rows([moved(0, 3, 4)])
    assert (what, about) == ("limit moved", "main")
    assert facts == "limit 4, before 3, pressure 0.771, reason growing"


def test_a_run_of_moves_is_one_row_and_what_comes_between_ends_it():
    run = [moved(0, 3, 4), moved(1, 4, 7, pressure=0.1), moved(2, 7, 5, reason="overload")]
    rows = event_rows([*run, opened(3), moved(4, 5, 6), moved(5, 6, 7)])
    assert [row[1] for row in rows] == [
        "limit moved 3 times",
        "endpoint opened",
        "limit moved 2 times",
    ]
    assert (
        rows[0][3] == "from 3 to 5, between 4 and 7; pressure 0.1 to 0.771; growing 2, overload 1"
    )


def test_pools_are_told_apart():
    rows = event_rows([moved(0, 1, 2), moved(1, 1, 2, "other"), moved(2, 2, 3, "other")])
    assert [(row[1], row[2]) for row in rows] == [
        ("limit moved", "main"),
        ("limit moved 2 times", "other"),
    ]


def test_money_without_prices_is_no_nought():
    assert money(0.0, priced=False) == "-"
    assert money(0.0, priced=True) == "0.0000"
    assert money(1.5, priced=False) == "1.5000"
