"""Waiting is arithmetic."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.domain.retry import RetryPolicy, cool_down_s, delay_s, may_retry

POLICY = RetryPolicy(max_attempts=5, base_s=1.0, max_s=60.0)


def test_delays_double_and_are_bounded() -> None:
    assert [delay_s(n, POLICY, 0.5) for n in (1, 2, 3)] == [0.75, 1.5, 3.0]
    assert delay_s(50, POLICY, 0.0) == 30.0


@given(st.integers(1, 1000), st.floats(0, 1, exclude_max=True))
def test_a_delay_is_between_half_of_its_ceiling_and_all_of_it(attempt: int, jitter: float) -> None:
    ceiling = min(60.0, 2.0 ** min(attempt - 1, 30))
    assert ceiling / 2 <= delay_s(attempt, POLICY, jitter) <= ceiling


def test_the_last_attempt_is_the_last() -> None:
    assert [may_retry(n, POLICY) for n in (1, 4, 5, 6)] == [True, True, False, False]


def test_what_an_endpoint_asks_for_wins_within_an_hour() -> None:
    assert cool_down_s(1, 7.0, POLICY, 0.5) == 7.0
    assert cool_down_s(1, 90_000.0, POLICY, 0.5) == 3600.0


def test_next_to_nothing_asked_for_does_not_undercut_our_own_backoff() -> None:
    assert cool_down_s(1, 0.0, POLICY, 0.5) == 0.75
    assert [cool_down_s(n, 0.1, POLICY, 0.0) for n in (1, 2, 3, 20)] == [0.5, 1.0, 2.0, 30.0]
    assert cool_down_s(1, 0.9, POLICY, 0.0) == 0.9
    assert cool_down_s(20, 1.0, POLICY, 0.0) == 1.0


def test_without_a_word_the_cool_down_doubles_up_to_half_a_minute() -> None:
    waits = [cool_down_s(n, None, POLICY, 0.0) for n in (1, 2, 3, 20)]
    assert waits == [0.5, 1.0, 2.0, 30.0]
