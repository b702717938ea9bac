"""What one request says, and which batch calls give their place back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.domain.throttle.samples import Sample, attributable, nearest_rank, summarise, x_of
from app.domain.throttle.values import PolicySettings
from app.domain.throttle.yielding import Held, YieldSettings, victims

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
POLICY = PolicySettings(target_p95_ms=1_000, first_token_target_ms=500, per_token_target_ms=50)


@pytest.mark.parametrize(
    ("sample", "x"),
    [
        (Sample(age_ms=250), 0.5),
        (Sample(age_ms=9_000, first_token_ms=400), 0.8),
        (Sample(age_ms=4_100, first_token_ms=100, output_tokens=101, finished=True), 0.8),
        (Sample(age_ms=1_100, first_token_ms=600, output_tokens=101, finished=True), 1.2),
        (Sample(age_ms=700, first_token_ms=100, output_tokens=8, finished=True), 0.7),
        (Sample(age_ms=2_000, streams=False), 2.0),
        (Sample(age_ms=300, finished=True, streams=False), 0.3),
        (Sample(age_ms=20, finished=True, error_code="bad_request"), None),
        (Sample(age_ms=2_000, finished=True, error_code="timeout"), 4.0),
    ],
)
def test_x_is_the_worst_ratio_of_time_to_target(sample: Sample, x: float | None) -> None:
    assert x_of(sample, POLICY) == (x if x is None else pytest.approx(x))


def test_a_request_that_failed_fast_is_a_miss_and_not_fast() -> None:
    refused = Sample(age_ms=5, finished=True, error_code="rate_limited")
    reading = summarise([refused], POLICY, NOON, arrivals=1)

    assert (reading.misses, reading.failed, reading.completions_per_s) == (1, 1, 0.0)
    assert reading.p95_ms is None


def test_a_sample_counts_against_batch_only_below_the_peoples_own_capacity() -> None:
    policy = PolicySettings(people_capacity=10)

    assert attributable(Sample(age_ms=1, ahead=9), policy)
    assert not attributable(Sample(age_ms=1, ahead=10), policy)
    assert attributable(Sample(age_ms=1, ahead=10_000), POLICY)


def test_who_came_before_a_cut_is_no_reason_for_the_next() -> None:
    late = Sample(age_ms=9_000, first_token_ms=900, submitted_at=NOON - timedelta(seconds=9))
    later = replace(late, submitted_at=NOON - timedelta(seconds=2))
    policy = replace(POLICY, answered_at=NOON - timedelta(seconds=3))

    before, after = (
        summarise([late, later], settings, NOON, arrivals=2) for settings in (POLICY, policy)
    )

    assert (before.samples, before.misses) == (2, 2)
    assert (after.samples, after.misses) == (2, 1)
    assert after.x_p95 == before.x_p95


def test_waiting_people_are_seen_before_they_complete() -> None:
    reading = summarise(
        [Sample(age_ms=700), Sample(age_ms=100), Sample(age_ms=900, first_token_ms=50)],
        POLICY,
        NOON,
        arrivals=3,
        batch_in_flight=4,
    )

    assert (reading.waiting, reading.waiting_over_target) == (2, 1)
    assert reading.oldest_waiting_s == 0.7
    assert (reading.samples, reading.misses, reading.nears) == (3, 1, 1)
    assert (reading.interactive_in_flight, reading.batch_in_flight) == (3, 4)


def test_nobody_is_a_sound_reading() -> None:
    reading = summarise([], POLICY, NOON, arrivals=0)

    assert reading.sound
    assert (reading.x_p95, reading.share_over_target) == (None, None)


def test_the_quantile_is_a_value_that_was_there() -> None:
    assert nearest_rank([], 0.95) is None
    assert nearest_rank([3.0], 0.5) == 3.0
    assert nearest_rank([float(n) for n in range(1, 101)], 0.95) == 95.0


def held(count: int, tokens: float = 100.0) -> list[Held]:
    return [Held(f"c{n}", age_s=10.0 - n, work_tokens=tokens) for n in range(count)]


def taken(calls: list[Held], limit: int, **values: float) -> list[str]:
    given = {"oldest_waiting_s": 0.0, "drain_s": 0.0, "work_tokens": 1e6, "wasted_tokens": 0.0}
    given |= values
    return [v.key for v in victims(calls, limit, YieldSettings(), **given)]


def test_nothing_is_closed_when_draining_is_quick_and_nobody_waits() -> None:
    assert taken(held(5), 2) == []
    assert taken(held(2), 2, oldest_waiting_s=9.0) == []


def test_the_newest_over_the_limit_are_closed_for_somebody_who_waits() -> None:
    assert taken(held(5), 3, oldest_waiting_s=0.3) == ["c4", "c3"]
    assert taken(held(5), 3, drain_s=2.0) == ["c4", "c3"]


def test_thrown_away_work_stays_within_its_budget() -> None:
    assert taken(held(5), 0, drain_s=9.0, work_tokens=5_000) == ["c4", "c3"]  # 5 % of 5,000
    assert taken(held(5), 0, drain_s=9.0, work_tokens=5_000, wasted_tokens=200) == []


def test_a_job_that_opted_out_keeps_its_calls() -> None:
    calls = [Held("old", 9.0, 1.0), Held("mine", 1.0, 1.0, may_yield=False)]

    assert taken(calls, 0, drain_s=9.0) == ["old"]
