"""Summaries of long texts: parts in their order, half as many at each level, one at the end."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.inference import ChatRequest
from app.domain.results import Item, ItemResult, Status
from app.errors import BadParams
from app.kinds.base import Calls, checked
from app.kinds.summarize import KIND, SummarizeParams


def params(**more: Any) -> SummarizeParams:
    made = checked(KIND, {"model": "m", "words": 30, "part_tokens": 256, **more})
    assert isinstance(made, SummarizeParams)
    return made


def item(text: str) -> Item:
    return Item(1, "k", {"text": text})


def document(sentences: int) -> str:
    return " ".join(f"Sentence number {n} speaks of subject {n % 7}." for n in range(sentences))


def played(
    text: str, how: SummarizeParams, answer: Any = lambda name: f"<{name}>"
) -> tuple[list[list[str]], dict[str, ChatRequest], ItemResult]:
    """Rounds of new names, every request, and the result."""
    done: dict[str, Any] = {}
    rounds: list[list[str]] = []
    requests: dict[str, ChatRequest] = {}
    for _ in range(100):
        said = KIND.step(item(text), done, how)
        if isinstance(said, ItemResult):
            return rounds, requests, said
        assert isinstance(said, Calls)
        new = {name: call for name, call in said.by_name.items() if name not in done}
        assert new
        for name, call in new.items():
            assert isinstance(call, ChatRequest)
            requests[name] = call
            done[name] = {"text": answer(name), "finish_reason": "stop"}
        rounds.append(list(new))
    raise AssertionError("it does not end")


def test_a_short_text_is_one_call() -> None:
    rounds, requests, result = played("A short text.", params())
    assert rounds == [["whole"]]
    assert requests["whole"].messages[-1].content == "A short text."
    assert requests["whole"].max_tokens == 90
    assert (result.status, result.output["text"], result.output["parts"]) == (
        Status.DONE,
        "<whole>",
        1,
    )


def test_parts_are_put_together_in_their_order() -> None:
    rounds, requests, result = played(document(200), params())
    parts = rounds[0]
    assert parts == [f"part:{n:04}" for n in range(len(parts))]
    sent = " ".join(requests[name].messages[-1].content for name in parts)
    assert sent.split() == document(200).split()
    merged = "\n".join(requests[name].messages[-1].content for name in rounds[1])
    assert [w for w in merged.split() if w.startswith("<")] == [f"<{name}>" for name in parts]
    assert len(rounds[-1]) == 1
    assert result.output["levels"] == len(rounds) - 1


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 800), st.integers(1, 400))
def test_each_level_is_at_most_half_of_the_one_before(sentences: int, long: int) -> None:
    rounds, _, result = played(document(sentences), params(words=80), lambda _: "word " * long)
    levels = [len(r) for r in rounds if r != ["shorter"]]
    assert all(2 * later <= earlier + 1 for earlier, later in pairwise(levels))
    assert result.status is Status.DONE


def test_a_summary_that_is_far_too_long_is_shortened_once() -> None:
    rounds, requests, result = played("A text.", params(), lambda _: "word " * 100)
    assert rounds == [["whole"], ["shorter"]]
    assert "at most 30 words" in requests["shorter"].messages[0].content
    assert result.output["words"] == 100


def test_parts_without_a_summary_are_left_out_and_counted() -> None:
    text = document(100)
    blank = {"part:0001", "part:0002"}
    _, requests, result = played(text, params(), lambda n: "" if n in blank else f"<{n}>")
    assert result.output["blank_parts"] == 2
    assert "<part:0001>" not in requests["merge:1:0000"].messages[-1].content
    _, _, nothing = played(text, params(), lambda _: "  ")
    assert (nothing.status, nothing.code) == (Status.FAILED, "empty_answer")


def test_focus_and_language_are_asked_for_at_every_level() -> None:
    _, requests, _ = played(document(100), params(focus="money", language="German"))
    for request in requests.values():
        assert "money" in request.messages[0].content
        assert "Write in German." in request.messages[0].content


def test_summaries_too_long_for_a_request_are_refused() -> None:
    with pytest.raises(BadParams, match="part_tokens must be at least 3000"):
        params(words=1000)
