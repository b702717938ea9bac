"""When an endpoint is left alone, and how it comes back: arithmetic."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.health import (
    Breaker,
    BreakerState,
    HealthPolicy,
    blames_endpoint,
    failed,
    is_slow,
    open_for_s,
    probed,
)

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
POLICY = HealthPolicy(failures_to_open=3, open_s=5.0, open_max_s=60.0, slow_factor=3.0)


def after_failures(count: int, state: BreakerState | None = None) -> BreakerState:
    state = state or BreakerState()
    for _ in range(count):
        state = failed(state, POLICY, NOON)
    return state


def test_three_failures_in_a_row_open_it_and_two_do_not() -> None:
    assert after_failures(2) == BreakerState(failures=2)
    assert after_failures(3) == BreakerState(
        Breaker.OPEN, failures=3, openings=1, open_until=NOON + timedelta(seconds=5)
    )


def test_a_failure_that_comes_late_to_an_open_breaker_changes_nothing() -> None:
    assert after_failures(9) == after_failures(3)
    half_open = BreakerState(Breaker.HALF_OPEN, 3, 1, NOON)
    assert failed(half_open, POLICY, NOON) is half_open


def test_each_failed_probe_doubles_the_wait_up_to_a_bound() -> None:
    state, waits = after_failures(3), []
    for _ in range(6):
        assert state.open_until is not None
        waits.append((state.open_until - NOON).total_seconds())
        state = probed(state, ok=False, policy=POLICY, now=NOON)
    assert waits == [5, 10, 20, 40, 60, 60]


def test_an_endpoint_that_answers_probes_only_waits_longer_each_time() -> None:
    closed = probed(after_failures(3), ok=True, policy=POLICY, now=NOON)
    assert closed == BreakerState(Breaker.CLOSED, failures=0, openings=1)

    again = after_failures(3, closed)
    assert (again.openings, again.open_until) == (2, NOON + timedelta(seconds=10))


@given(st.integers(1, 10_000))
def test_it_is_never_open_for_longer_than_the_bound(openings: int) -> None:
    assert POLICY.open_s <= open_for_s(openings, POLICY) <= POLICY.open_max_s


@pytest.mark.parametrize("code", ["connection", "timeout", "server_error", "overloaded"])
def test_faults_of_the_endpoint_count_whoever_meets_them(code: str) -> None:
    assert blames_endpoint(code, items=64, attempt=3)


@pytest.mark.parametrize(
    "code", ["rate_limited", "bad_request", "too_long", "content_refused", "auth", "abandoned"]
)
def test_what_is_not_its_fault_does_not_count(code: str) -> None:
    assert not blames_endpoint(code, items=1, attempt=0)


def test_a_bad_reply_to_items_that_failed_before_counts_only_for_one_that_stands_alone() -> None:
    assert blames_endpoint("bad_reply", items=64, attempt=0)
    assert not blames_endpoint("bad_reply", items=64, attempt=1)
    assert blames_endpoint("bad_reply", items=1, attempt=1)


def test_slow_is_three_times_as_slow_as_the_others_until_it_is_clearly_better() -> None:
    assert [is_slow(False, pace, POLICY) for pace in (None, 2.9, 3.0)] == [False, False, True]
    assert [is_slow(True, pace, POLICY) for pace in (None, 1.9, 2.0)] == [False, False, True]
