"""What a sender may say of times, and texts as the world has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.errors import BadParams
from app.worker.interactive_tasks import _most_tokens, _texts, _times, _turns, facts


def now_s() -> float:
    return datetime.now(UTC).timestamp()


def test_a_deadline_counts_from_the_question_and_not_from_its_arrival() -> None:
    asked_s = now_s() - 3
    submitted_at, deadline_at = _times(asked_s, 5, None)
    assert deadline_at is not None
    assert (deadline_at - submitted_at) == timedelta(seconds=5)
    assert submitted_at.timestamp() == pytest.approx(asked_s)


def test_a_deadline_may_be_a_moment() -> None:
    _, deadline_at = _times(None, None, 2_000_000_000)
    assert deadline_at == datetime.fromtimestamp(2_000_000_000, UTC)
    assert _times(None, None, None)[1] is None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((None, 0, None), "deadline_s must be a number of seconds above 0"),
        ((None, "5", None), "deadline_s must be a number"),
        ((None, float("nan"), None), "deadline_s must be a number"),
        ((None, 1, 1), "either deadline_s or deadline_at"),
        ((None, None, "noon"), "deadline_at must be seconds since 1970"),
        (("noon", None, None), "submitted_at must be seconds since 1970"),
    ],
)
def test_what_is_no_time_is_refused_and_named(given: tuple[Any, Any, Any], told: str) -> None:
    with pytest.raises(BadParams, match=told):
        _times(*given)


def test_facts_show_no_text() -> None:
    shown = facts({"prompt": "secret", "model": "m", "priority": 7, "deadline_s": 5})
    assert shown == "{'model': 'm', 'priority': 7, 'deadline_s': 5}"


def test_half_a_character_is_mended_before_anybody_shares_a_call_with_it() -> None:
    assert _texts(["fine", "cut \ud83d"]) == ("fine", "cut \ufffd")
    assert _turns("cut \ud83d", None)[0].content == "cut \ufffd"
    assert _turns(None, [{"role": "user", "content": "a\x00b"}])[0].content == "ab"


@pytest.mark.parametrize("texts", [[], ["fine", None], ["fine", 5], 5, {"a": "b"}])
def test_what_is_no_text_is_refused(texts: Any) -> None:
    with pytest.raises(BadParams, match="texts must"):
        _texts(texts)


def test_a_prompt_is_a_text() -> None:
    with pytest.raises(BadParams, match="prompt must be a text, not int"):
        _turns(5, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [0, -1, "5", 1.5, True, 10**12])
def test_what_is_no_number_of_tokens_is_refused(given: Any) -> None:
    with pytest.raises(BadParams, match="max_tokens must be a whole number from 1"):
        _most_tokens(given)


def test_a_number_of_tokens_or_none_is_taken() -> None:
    assert (_most_tokens(None), _most_tokens(1), _most_tokens(4096)) == (None, 1, 4096)
