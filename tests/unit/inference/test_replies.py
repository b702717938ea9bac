"""What is read in a reply, whoever wrote it."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.inference import ChatRequest, Message, Usage
from app.inference.streaming import SoFar, Streamed

ASKED = ChatRequest("m", (Message("user", "hello"),))


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("stop", "stop"),
        (None, None),
        (3, None),
        ("st\x00op", None),
        ("\ud800", None),
        ("x" * 65, None),
    ],
)
def test_an_ending_that_could_not_be_stored_is_none(said: object, kept: str | None) -> None:
    value = {"choices": [{"message": {"content": "hi"}, "finish_reason": said}]}
    assert Streamed(ASKED).whole(value).finish_reason == kept


def piece(**delta: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def test_what_has_come_so_far_is_there_before_the_end() -> None:
    so_far = SoFar()
    streamed = Streamed(ASKED, so_far=so_far)
    for event in (piece(content="a"), piece(content="b"), piece(content="")):
        streamed.add(event)

    assert (so_far.text, so_far.reason, so_far.reasons) == ("ab", None, False)
    assert (so_far.usage(ASKED).completion_tokens, so_far.usage(ASKED).rough) == (2, True)
    streamed.add(piece(content="cd") | {"usage": {"prompt_tokens": 9, "completion_tokens": 5}})
    assert so_far.usage(ASKED) == Usage(9, 5)


def test_a_model_that_reasons_first_is_known_by_it() -> None:
    so_far = SoFar()
    streamed = Streamed(ASKED, so_far=so_far)
    streamed.add(piece(reasoning_content="well"))
    streamed.add(piece(content="so"))

    assert (so_far.text, so_far.reasons) == ("so", True)
