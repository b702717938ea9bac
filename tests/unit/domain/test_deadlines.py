"""Places for deadlines are arithmetic."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from app.domain.deadlines import Due, outlook, places_needed

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def due(in_s: float, remaining: int = 100, done: int = 50, place_s: float = 100.0) -> Due:
    return Due(NOON + timedelta(seconds=in_s), remaining, done, place_s)


def test_nothing_due_needs_nothing() -> None:
    assert places_needed([], NOON) is None
    assert places_needed([due(10, remaining=0)], NOON) is None


def test_the_pace_of_one_place_says_how_many_are_needed() -> None:
    # 2 s an item: 100 items take 200 place-seconds.
    assert places_needed([due(200)], NOON) == 1
    assert places_needed([due(50)], NOON) == 4
    assert places_needed([due(50), due(200)], NOON) == 5


def test_a_job_without_a_pace_asks_for_one_place() -> None:
    assert places_needed([due(1, done=0, place_s=0.0)], NOON) == 1


def test_a_missed_deadline_still_asks_for_a_finite_number() -> None:
    assert places_needed([due(-3600)], NOON) == 200


def test_where_a_deadline_cannot_be_met_it_is_told_by_when_the_job_is_done() -> None:
    late = outlook(due(50), 2, NOON)  # 200 place-seconds are left: 100 s with two places.

    assert late is not None
    assert (late.done_at, late.late_s, late.needs) == (NOON + timedelta(seconds=100), 50.0, 4)
    assert str(late) == "cannot be met with 2 places, 4 would make it"
    assert str(outlook(due(50), 0, NOON)) == "cannot be met with 1 place, 4 would make it"
    assert str(outlook(due(-1), 9, NOON)) == "has passed"


def test_what_is_made_and_what_has_no_pace_yet_are_not_told_late() -> None:
    made = outlook(due(50), 4, NOON)

    assert made is not None
    assert (made.late_s, str(made)) == (0.0, "will be met")
    assert outlook(due(50, done=0, place_s=0.0), 4, NOON) is None
    assert outlook(due(50, remaining=0), 4, NOON) is None
