"""When schedules fire: both clock changes, outages, overlaps; all by arithmetic."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.schedules import (
    Due,
    Earlier,
    Go,
    Missed,
    Overlap,
    PassBy,
    Replace,
    Rule,
    Wait,
    begins_at,
    check,
    deadline,
    due,
    key_of,
    note,
    on_overlap,
    times,
)
from app.errors import UsageError

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
NIGHTLY = Rule("0 2 * * *", BERLIN)
NOON = datetime(2027, 6, 1, 12, tzinfo=UTC)


def local(rule: Rule, first: str, last: str) -> list[str]:
    """The nominal times from one local date and time to another, both included, as the wall shows
    them."""
    zone = ZoneInfo(rule.timezone)
    begin = datetime.fromisoformat(first).replace(tzinfo=zone) - timedelta(seconds=1)
    end = datetime.fromisoformat(last).replace(tzinfo=zone)
    found = []
    for at in times(rule, begin):
        if at > end.astimezone(UTC):
            return found
        found.append(at.astimezone(zone).isoformat(timespec="minutes"))
    return found


@pytest.mark.parametrize(
    ("cron", "zone", "first", "last", "expected"),
    [
        # Berlin, 28 March 2027: 02:00 becomes 03:00.
        (
            "30 2 * * *",
            BERLIN,
            "2027-03-27T00:00",
            "2027-03-29T23:00",
            ["2027-03-27T02:30+01:00", "2027-03-28T03:00+02:00", "2027-03-29T02:30+02:00"],
        ),
        (
            "0 2 * * *",
            BERLIN,
            "2027-03-28T00:00",
            "2027-03-29T23:00",
            ["2027-03-28T03:00+02:00", "2027-03-29T02:00+02:00"],
        ),
        (
            "0,30 2 * * *",
            BERLIN,
            "2027-03-28T00:00",
            "2027-03-28T23:00",
            ["2027-03-28T03:00+02:00"],
        ),
        (
            "0 1-4 * * *",
            BERLIN,
            "2027-03-28T00:00",
            "2027-03-28T23:00",
            ["2027-03-28T01:00+01:00", "2027-03-28T03:00+02:00", "2027-03-28T04:00+02:00"],
        ),
        (
            "0 * * * *",
            BERLIN,
            "2027-03-28T01:00",
            "2027-03-28T04:00",
            ["2027-03-28T01:00+01:00", "2027-03-28T03:00+02:00", "2027-03-28T04:00+02:00"],
        ),
        ("*/30 2 * * *", BERLIN, "2027-03-28T00:00", "2027-03-28T23:00", []),
        # Berlin, 31 October 2027: 03:00 becomes 02:00.
        (
            "30 2 * * *",
            BERLIN,
            "2027-10-30T00:00",
            "2027-11-01T23:00",
            ["2027-10-30T02:30+02:00", "2027-10-31T02:30+02:00", "2027-11-01T02:30+01:00"],
        ),
        (
            "0 * * * *",
            BERLIN,
            "2027-10-31T01:00",
            "2027-10-31T03:00",
            [
                "2027-10-31T01:00+02:00",
                "2027-10-31T02:00+02:00",
                "2027-10-31T02:00+01:00",
                "2027-10-31T03:00+01:00",
            ],
        ),
        # New York, 14 March 2027: 02:00 becomes 03:00.
        (
            "15 2 * * *",
            NEW_YORK,
            "2027-03-13T00:00",
            "2027-03-15T23:00",
            ["2027-03-13T02:15-05:00", "2027-03-14T03:00-04:00", "2027-03-15T02:15-04:00"],
        ),
        (
            "0 * * * *",
            NEW_YORK,
            "2027-03-14T01:00",
            "2027-03-14T04:00",
            ["2027-03-14T01:00-05:00", "2027-03-14T03:00-04:00", "2027-03-14T04:00-04:00"],
        ),
        # New York, 7 November 2027: 02:00 becomes 01:00.
        (
            "30 1 * * *",
            NEW_YORK,
            "2027-11-06T00:00",
            "2027-11-08T23:00",
            ["2027-11-06T01:30-04:00", "2027-11-07T01:30-04:00", "2027-11-08T01:30-05:00"],
        ),
        (
            "0 * * * *",
            NEW_YORK,
            "2027-11-07T00:00",
            "2027-11-07T02:00",
            [
                "2027-11-07T00:00-04:00",
                "2027-11-07T01:00-04:00",
                "2027-11-07T01:00-05:00",
                "2027-11-07T02:00-05:00",
            ],
        ),
    ],
)
def test_clock_changes_do_what_the_documentation_says(
    cron: str, zone: str, first: str, last: str, expected: list[str]
) -> None:
    assert local(Rule(cron, zone), first, last) == expected


@pytest.mark.parametrize("hour", [0, 1])
def test_a_tick_within_the_doubled_hour_does_not_repeat_its_run(hour: int) -> None:
    """Looked at from 02:10 the first and the second time, and then once more."""
    rule = Rule("30 2 * * *", BERLIN)
    seen = datetime(2027, 10, 31, hour, 10, tzinfo=UTC)  # 02:10+02:00, 02:10+01:00

    found = list(islice(times(rule, seen), 1))

    first = datetime(2027, 10, 31, 0, 30, tzinfo=UTC)
    assert found == [first if hour == 0 else datetime(2027, 11, 1, 1, 30, tzinfo=UTC)]


def test_next_times_tell_what_the_clocks_do() -> None:
    rule = Rule("30 2 * * *", BERLIN)
    spring, autumn = datetime(2027, 3, 28, 1, tzinfo=UTC), datetime(2027, 10, 31, 0, 30, tzinfo=UTC)

    assert note(rule, spring) == "02:30 does not exist that day; it runs right after the gap"
    assert note(rule, autumn) == "02:30 comes twice that day; it runs the first time only"
    assert note(rule, NOON) is None
    hourly = Rule("30 * * * *", BERLIN)
    both = [note(hourly, autumn), note(hourly, autumn + timedelta(hours=1))]
    assert both == [
        "02:30 comes twice that day; it runs both times, this is the first",
        "02:30 comes twice that day; it runs both times, this is the second",
    ]
    assert note(hourly, spring + timedelta(minutes=30)) is None


def nights(found: tuple[datetime, ...]) -> list[str]:
    return [at.astimezone(ZoneInfo(BERLIN)).isoformat(timespec="minutes") for at in found]


BEFORE = datetime(2027, 10, 29, 10, tzinfo=UTC)
"""A Friday noon; the clocks go back on Sunday. Nobody ticks until Monday."""
BACK = datetime(2027, 11, 1, 10, tzinfo=UTC)
MISSED = ["2027-10-30T02:00+02:00", "2027-10-31T02:00+02:00", "2027-11-01T02:00+01:00"]


@pytest.mark.parametrize(
    ("missed", "within_s", "expected"),
    [
        (Missed.SKIP, 3 * 86400, []),
        (Missed.LATEST, 3 * 86400, MISSED[-1:]),
        (Missed.LATEST, 3600, []),
        (Missed.ALL, 4 * 86400, MISSED),
        (Missed.ALL, 2 * 86400, MISSED[1:]),
    ],
)
def test_an_outage_of_three_days_over_a_clock_change(
    missed: Missed, within_s: float, expected: list[str]
) -> None:
    rule = replace(NIGHTLY, missed=missed, missed_within_s=within_s)

    after = due(rule, BEFORE, BACK)

    assert nights(after.runs) == expected
    assert nights(tuple(one.at for one in after.skipped)) == [
        m for m in MISSED if m not in expected
    ]
    assert after.seen_until == BACK
    assert due(rule, after.seen_until, BACK + timedelta(hours=1)) == Due((), (), BACK)


@pytest.mark.parametrize("missed", list(Missed))
def test_a_time_that_has_just_come_is_run_whatever_the_policy(missed: Missed) -> None:
    rule = Rule("* * * * *", missed=missed, missed_within_s=0)
    assert due(rule, NOON - timedelta(seconds=2), NOON + timedelta(seconds=30)).runs == (NOON,)


def test_many_missed_times_are_looked_at_in_parts_with_one_outcome() -> None:
    rule = Rule("* * * * *", missed=Missed.LATEST)
    seen, runs, skipped = NOON - timedelta(minutes=100), [], 0
    for _ in range(20):
        part = due(rule, seen, NOON, most=7)
        runs += part.runs
        skipped += len(part.skipped)
        seen = part.seen_until

    assert (runs, skipped, seen) == ([NOON], 99, NOON)


@given(
    st.sampled_from(["0 2 * * *", "30 1 * * *", "*/20 * * * *", "0 */3 * * *", "5,35 1-3 * * *"]),
    st.sampled_from([BERLIN, NEW_YORK, "Australia/Lord_Howe", "America/Santiago", "UTC"]),
    st.datetimes(datetime(2027, 1, 1), datetime(2027, 12, 31)),
    st.lists(st.integers(1, 90_000), min_size=1, max_size=6),
)
def test_however_ticks_fall_the_same_times_come_once(
    cron: str, zone: str, start: datetime, steps: list[int]
) -> None:
    """With `all`, cutting a span into ticks neither loses nor doubles a run."""
    rule = Rule(cron, zone, missed=Missed.ALL, missed_within_s=30 * 86400)
    begin = start.replace(tzinfo=UTC)
    now = seen = begin
    found: list[datetime] = []
    for step in steps:
        now += timedelta(seconds=step)
        part = due(rule, seen, now)
        found += part.runs
        seen = part.seen_until

    assert found == list(due(rule, begin, now).runs)
    assert found == sorted(set(found))


def test_jitter_is_the_same_for_everybody_and_differs_by_run() -> None:
    rule = replace(NIGHTLY, jitter_s=300.0)
    begins = [begins_at("nightly", rule, NOON + timedelta(days=n)) for n in range(50)]
    late_s = [(at - NOON - timedelta(days=n)).total_seconds() for n, at in enumerate(begins)]

    assert begins == [begins_at("nightly", rule, NOON + timedelta(days=n)) for n in range(50)]
    assert all(0 <= late < 300 for late in late_s)
    assert len(set(late_s)) > 40
    assert begins_at("nightly", NIGHTLY, NOON) == NOON


def test_the_key_tells_the_two_hours_of_one_name_apart() -> None:
    rule = Rule("0 * * * *", BERLIN)
    first = datetime(2027, 10, 31, 0, tzinfo=UTC)
    assert key_of("n", rule, first) == "n@2027-10-31T02:00+02:00"
    assert key_of("n", rule, first + timedelta(hours=1)) == "n@2027-10-31T02:00+01:00"
    assert key_of("n", rule, first + timedelta(seconds=13)) == "n@2027-10-31T02:00:13+02:00"


def test_done_by_is_the_next_such_time_on_the_wall() -> None:
    rule = replace(NIGHTLY, done_by="06:00")
    spring = datetime(2027, 3, 28, 1, tzinfo=UTC)
    assert deadline(rule, spring) == datetime(2027, 3, 28, 4, tzinfo=UTC)
    assert deadline(replace(rule, done_by="01:00"), spring) == datetime(2027, 3, 28, 23, tzinfo=UTC)
    assert deadline(NIGHTLY, spring) is None


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (Rule("0 2 * *"), "five"),
        (Rule("0 25 * * *"), "bad hour"),
        (Rule("0 0 31 2 *"), "day-of-month"),
        (Rule("0 0 * 2 MON#5", "UTC"), None),
        (Rule("0 2 * * *", "Europe/Berln"), "did you mean Europe/Berlin"),
        (Rule("0 2 * * *", done_by="6 am"), "06:00"),
        (Rule("0 2 * * *", jitter_s=-1), "negative"),
        (Rule("0 2 * * *", jitter_s=86_401), "at most a day"),
        (Rule("0 2 * * *", jitter_s=float("nan")), "at most a day"),
        (Rule("0 2 * * *", missed_within_s=float("inf")), "is a number"),
    ],
)
def test_what_cannot_be_is_told(rule: Rule, says: str | None) -> None:
    if says is None:
        check(rule)
        return
    with pytest.raises(UsageError, match=says):
        check(rule)


def test_what_an_overlap_means() -> None:
    earlier = Earlier(NOON, 7, "n@1")
    assert all(on_overlap(policy, []) == Go() for policy in Overlap)
    assert on_overlap(Overlap.QUEUE, [earlier]) == Wait()
    assert on_overlap(Overlap.CANCEL, [earlier]) == Replace((earlier,))
    assert on_overlap(Overlap.SKIP, [earlier]) == PassBy("overlap: job n@1 is not over")
