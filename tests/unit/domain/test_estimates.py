"""What a job will take: arithmetic, and what each figure rests on."""

from __future__ import annotations

import pytest

from app.domain.estimates import Figure, Pace, Work, completion_tokens, money, seconds
from app.domain.routing import EndpointSpec

VECTORS = Work(items=1000, calls=20, prompt_tokens=50_000, together=True)
CHATS = Work(items=100, calls=100, prompt_tokens=20_000, together=False)
PACE = Pace(calls=40, items=400, seconds=80.0, prompt_tokens=10_000, completion_tokens=2_000)
NOTHING = Work(items=0, calls=0, prompt_tokens=0, together=True)


def spec(name: str, prompt: float = 0.0, answer: float = 0.0) -> EndpointSpec:
    return EndpointSpec(
        name=name,
        pool="main",
        kind="openai",
        base_url="http://e",
        models=("m",),
        max_concurrency=4,
        input_price=prompt,
        output_price=answer,
    )


def test_time_of_vectors_goes_by_tokens_and_of_chats_by_calls() -> None:
    assert seconds(VECTORS, PACE, 4).value == pytest.approx(80 / 10_000 * 50_000 / 4)
    assert seconds(CHATS, PACE, 4).value == pytest.approx(80 / 40 * 100 / 4)
    assert "at 4 places" in seconds(CHATS, PACE, 4).basis
    assert "at 1 place," in seconds(CHATS, PACE, 1).basis


@pytest.mark.parametrize("pace", [None, Pace(4, 40, 8.0, 1000, 200)])
def test_too_few_calls_say_nothing(pace: Pace | None) -> None:
    assert seconds(VECTORS, pace, 4).value is None
    assert completion_tokens(CHATS, pace, None).value is None


def test_nothing_to_send_takes_no_time() -> None:
    assert seconds(NOTHING, None, 1).value == 0


def test_answers_are_as_long_as_they_were_or_at_most_so_long() -> None:
    assert completion_tokens(CHATS, PACE, 256).value == 2_000 / 40 * 100
    assert completion_tokens(CHATS, None, 256) == Figure(25_600, "at most: 256 an answer")
    assert completion_tokens(VECTORS, PACE, 256).value == 0


def test_money_is_that_of_the_dearest_endpoint() -> None:
    answers = Figure(10_000, "")
    found = money(CHATS, answers, [spec("cheap", 1.0, 1.0), spec("dear", 2.0, 10.0), spec("own")])

    assert found.value == pytest.approx((2.0 * 20_000 + 10.0 * 10_000) / 1e6)
    assert found.basis == "by the prices of endpoint 'dear'"


def test_money_without_prices_or_answers_says_so() -> None:
    assert money(CHATS, Figure(1, ""), [spec("own")]).value is None
    only_prompts = money(CHATS, Figure(None, ""), [spec("e", 1.0, 5.0)])
    assert only_prompts.value == pytest.approx(0.02)
    assert only_prompts.basis.endswith("answers left out")
