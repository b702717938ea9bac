"""Money: tokens times prices, and when a budget is spent."""

from __future__ import annotations

import pytest

from app.domain.pricing import budget_reason, is_spent, money, shown
from app.domain.routing import EndpointSpec


def priced(given: float, made: float) -> EndpointSpec:
    return EndpointSpec(
        "paid", "main", "openai", "http://x/v1", ("m",), 8, input_price=given, output_price=made
    )


def test_prices_are_for_a_million_tokens() -> None:
    assert money(priced(0.5, 1.5), 1_000_000, 2_000_000) == pytest.approx(3.5)
    assert money(priced(0.02, 0), 1_500) == pytest.approx(0.00003)
    assert money(priced(0, 0), 10**9, 10**9) == 0


def test_a_budget_is_spent_when_it_is_reached_however_the_sum_was_rounded() -> None:
    assert is_spent(sum([0.1] * 10), 1.0)
    assert is_spent(1.02, 1.0)
    assert not is_spent(0.99, 1.0)
    assert not is_spent(10**6, None)
    assert is_spent(0.0, 0.0)


def test_the_reason_tells_both_sums() -> None:
    assert budget_reason(1.02, 1) == "budget: spent 1.02 of 1.00"


@pytest.mark.parametrize(
    ("amount", "told"),
    [(0, "0.00"), (1234.5, "1,234.50"), (0.0123, "0.012"), (0.00003, "3.0e-05")],
)
def test_small_sums_are_not_shown_as_nothing(amount: float, told: str) -> None:
    assert shown(amount) == told
