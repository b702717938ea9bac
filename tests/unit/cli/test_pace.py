"""Pace and time left, by arithmetic."""

from __future__ import annotations

from app.cli.parts.pace import Seen, items_per_s, left_s


def test_the_pace_is_that_of_the_last_window() -> None:
    seen = [Seen(0, 0), Seen(10, 10_000), Seen(20, 10_500), Seen(30, 11_000)]

    assert items_per_s(seen, window_s=20) == 50


def test_one_look_tells_no_pace() -> None:
    assert items_per_s([Seen(0, 100)]) is None
    assert items_per_s([]) is None


def test_after_a_retry_the_pace_is_not_negative() -> None:
    assert items_per_s([Seen(0, 100), Seen(1, 90)]) == 0


def test_the_time_left_follows_from_the_pace() -> None:
    assert left_s(100, 50) == 2
    assert left_s(0, None) == 0
    assert left_s(100, None) is None
    assert left_s(100, 0) is None
