"""What a person gets of an answer."""

from __future__ import annotations

import pytest

from app.domain.inference import ChatReply, Usage
from app.worker.interactive_tasks import _content


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("fine 😀", {"text": "fine 😀"}),
        ("half \ud83d", {"text": "half \ufffd", "cleaned": "surrogate"}),
        ("nul \x00", {"text": "nul ", "cleaned": "nul"}),
    ],
)
def test_an_answer_is_clean_and_says_what_was_changed(text: str, told: dict[str, str]) -> None:
    reply = ChatReply(text, "stop", Usage(1, 1), "m")
    assert _content(reply) == {"finish_reason": "stop", **told}


def test_calls_of_tools_are_passed_on() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    reply = ChatReply("", "tool_calls", Usage(1, 1), "m", (call,))
    assert _content(reply)["tool_calls"] == [call]
