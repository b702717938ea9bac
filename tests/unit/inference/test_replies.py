"""What is read in a reply, whoever wrote it."""

from __future__ import annotations

import pytest

from app.domain.inference import ChatRequest, Message
from app.inference.replies import chat_reply

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
    assert chat_reply(value, ASKED).finish_reason == kept
