"""What follows an attempt to tell somebody."""

from __future__ import annotations

import pytest

from app.domain.retry import RetryPolicy
from app.domain.webhooks import Again, GiveUp, Heard, after_attempt, is_private

POLICY = RetryPolicy(max_attempts=8, base_s=5.0)


@pytest.mark.parametrize("status", [200, 202, 204])
def test_any_2xx_is_heard(status: int) -> None:
    assert after_attempt(status, 8, POLICY, None, 0.5) == Heard()


@pytest.mark.parametrize("status", [None, 301, 400, 404, 429, 500])
def test_all_else_is_tried_again_while_attempts_are_left(status: int | None) -> None:
    assert after_attempt(status, 1, POLICY, None, 0.5) == Again(5.0)
    assert after_attempt(status, 8, POLICY, None, 0.5) == GiveUp()


def test_410_gives_up_at_once() -> None:
    assert after_attempt(410, 1, POLICY, None, 0.5) == GiveUp()


def test_pauses_grow_fourfold_to_four_hours_and_vary_by_a_quarter() -> None:
    pauses = [after_attempt(None, n, POLICY, None, 0.5) for n in range(1, 8)]
    assert pauses == [Again(s) for s in (5.0, 20.0, 80.0, 320.0, 1280.0, 5120.0, 14400.0)]
    assert after_attempt(None, 1, POLICY, None, 0.0) == Again(3.75)


def test_a_receiver_may_ask_for_more_time_and_not_for_a_year() -> None:
    assert after_attempt(429, 1, POLICY, 90.0, 0.5) == Again(90.0)
    assert after_attempt(429, 1, POLICY, 1e9, 0.5) == Again(14400.0)


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("127.0.0.1", True),
        ("10.1.2.3", True),
        ("192.168.0.9", True),
        ("169.254.169.254", True),
        ("100.64.0.1", True),
        ("0.0.0.0", True),
        ("::1", True),
        ("fe80::1%eth0", True),
        ("fd00::1", True),
        ("::ffff:10.0.0.1", True),
        ("64:ff9b::7f00:1", True),
        ("8.8.8.8", False),
        ("2606:4700:4700::1111", False),
    ],
)
def test_which_addresses_are_inside(address: str, inside: bool) -> None:
    assert is_private(address) is inside
