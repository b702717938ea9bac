"""Hours in which a job may run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.windows import Window, is_open, opens_at, parsed
from app.errors import UsageError


def berlin(text: str) -> datetime:
    return datetime.fromisoformat(text)


NIGHT = parsed("22:00-06:00 Europe/Berlin")


@pytest.mark.parametrize(
    ("at", "open_"),
    [
        ("2027-06-01T21:59+02:00", False),
        ("2027-06-01T22:00+02:00", True),
        ("2027-06-02T05:59+02:00", True),
        ("2027-06-02T06:00+02:00", False),
        ("2027-12-01T21:30+01:00", False),
        ("2027-12-01T22:30+01:00", True),
    ],
)
def test_a_night_goes_past_midnight_by_the_clocks_of_its_zone(at: str, open_: bool) -> None:
    assert is_open(NIGHT, berlin(at)) is open_


def test_a_day_ends_before_it_begins_again() -> None:
    day = parsed("8:00-17:30", "America/New_York")
    assert day == Window.from_json(day.to_json())
    assert is_open(day, berlin("2027-06-01T08:00-04:00"))
    assert not is_open(day, berlin("2027-06-01T17:30-04:00"))
    assert opens_at(day, berlin("2027-06-01T17:30-04:00")) == berlin("2027-06-02T08:00-04:00")
    assert is_open(None, berlin("2027-06-01T17:30-04:00"))


def test_a_window_that_begins_in_a_gap_opens_right_after_it() -> None:
    window = parsed("02:30-05:00 Europe/Berlin")
    before = berlin("2027-03-28T01:00+01:00")
    assert opens_at(window, before) == berlin("2027-03-28T03:00+02:00")
    assert is_open(window, opens_at(window, before))


@given(
    st.sampled_from([NIGHT, parsed("02:30-05:00 Europe/Berlin"), parsed("09:00-17:00")]),
    st.datetimes(datetime(2027, 1, 1), datetime(2028, 1, 1)),
)
def test_it_is_open_when_it_is_said_to_open_and_closed_a_minute_before(
    window: Window, at: datetime
) -> None:
    now = at.replace(tzinfo=UTC)
    opening = opens_at(window, now)
    assert opening > now
    assert is_open(window, opening)
    doubled = window.start.hour == 2 and opening.month == 10 and opening.day == 31
    if not doubled:
        assert not is_open(window, opening - timedelta(minutes=1))


@pytest.mark.parametrize(
    "text", ["22-6", "22:00", "25:00-06:00", "06:00-06:00", "1:00-2:00 Nowhere"]
)
def test_what_is_no_window_is_told(text: str) -> None:
    with pytest.raises(UsageError):
        parsed(text)
