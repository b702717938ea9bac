"""What a sender may say of times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.errors import BadParams
from app.worker.interactive_tasks import _times, facts


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
