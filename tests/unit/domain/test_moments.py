"""Durations and moments as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.domain.moments import moment
from app.errors import UsageError

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_a_duration_counts_from_now() -> None:
    assert moment("8h", NOON) == NOON + timedelta(hours=8)
    assert moment(None, NOON) is None


def test_a_date_and_time_is_that_moment() -> None:
    assert moment("2026-12-01T06:00+01:00", NOON) == datetime(2026, 12, 1, 5, tzinfo=UTC)
    without_zone = moment("2026-12-01T06:00", NOON)
    assert without_zone is not None
    assert without_zone.utcoffset() is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("soon", "no moment 'soon'"),
        ("2026-11-30T11:59+00:00", "has passed"),
        ("0h", "has passed"),
        ("99999999999d", "at most 36500d"),
    ],
)
def test_what_is_no_moment_to_come_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        moment(text, NOON)
