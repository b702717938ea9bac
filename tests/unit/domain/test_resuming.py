"""Going on with an answer: what is kept of it, what is asked then, and how the parts are joined."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.domain.inference import ChatRequest, Message
from app.domain.resuming import (
    Begun,
    ClosedTokens,
    anew,
    begun,
    closed_tokens,
    going_on,
    hash_of,
    is_whole,
    may_begin,
)

ASKED = ChatRequest("m", (Message("user", "Tell"),), max_tokens=100, temperature=0.0)
LONG = "It was the best of times, it was the worst of times"


def test_the_parts_and_their_tokens_add_up():
    first = begun(ASKED, None, "It was ", 3, "vllm")
    second = begun(ASKED, first, " the best", 2, "vllm")

    assert (first.text, first.tokens) == ("It was", 3)
    assert (second.text, second.tokens) == ("It was the best", 5)
    assert second.asked == first.asked == hash_of(ASKED)


@pytest.mark.parametrize("given", ["", " \n", "a\x00b", "half \ud83d"])
def test_what_is_nothing_or_cannot_be_kept_is_not(given: str):
    assert begun(ASKED, None, given, 3, "vllm") is None


def test_the_rest_is_asked_with_the_beginning_last_and_no_more_tokens_than_are_left():
    sent = going_on(ASKED, Begun(b"", "It was", 30), "vllm")

    assert sent.messages[-1] == Message("assistant", "It was")
    assert (sent.max_tokens, sent.goes_on) == (70, True)
    assert going_on(replace(ASKED, max_tokens=None), Begun(b"", "a", 3), "vllm").max_tokens is None
    assert going_on(ASKED, Begun(b"", "It was", 30), "llamacpp").goes_on
    assert not going_on(ASKED, Begun(b"", "It was", 30), "ollama").goes_on


@pytest.mark.parametrize(
    "other",
    [
        replace(ASKED, model="n"),
        replace(ASKED, messages=(Message("user", "Tell me"),)),
        replace(ASKED, temperature=0.5),
        replace(ASKED, max_tokens=99),
        replace(ASKED, seed=1),
    ],
)
def test_another_request_has_another_beginning(other: ChatRequest):
    assert hash_of(other) != hash_of(ASKED)


def test_the_place_in_the_queue_changes_no_answer():
    assert hash_of(replace(ASKED, priority=10)) == hash_of(ASKED)


def test_an_answer_as_long_as_it_may_be_needs_no_rest():
    assert is_whole(ASKED, Begun(b"", "a", 60), 40)
    assert not is_whole(ASKED, Begun(b"", "a", 60), 39)
    assert not is_whole(replace(ASKED, max_tokens=None), None, 10_000)


def test_an_answer_of_a_given_shape_does_not_come_in_parts():
    assert may_begin(ASKED)
    assert not may_begin(replace(ASKED, response_format={"type": "json_object"}))


def test_a_server_that_was_not_told_and_began_anew_is_seen_by_what_it_says():
    before = Begun(b"", LONG, 12)

    assert anew(before, f"{LONG}, and more", "ollama")
    assert anew(before, LONG[:45], "ollama")
    assert not anew(before, ", and more", "ollama")
    assert not anew(before, f"{LONG}, and more", "vllm")
    assert not anew(Begun(b"", "ha", 1), "ha ha", "ollama")
    assert not anew(None, LONG, "ollama")


@pytest.mark.parametrize("kind", ["llamacpp", "ollama"])
def test_a_beginning_too_short_to_be_known_again_is_not_kept_where_the_server_may_repeat_it(kind):
    assert begun(ASKED, None, LONG[:39], 9, kind) is None
    assert begun(ASKED, None, LONG, 12, kind).text == LONG


def test_what_is_too_short_to_be_judged_is_not_joined_to_a_beginning():
    before = Begun(b"", LONG, 12)

    assert begun(ASKED, before, " and so", 2, "ollama") is None
    assert begun(ASKED, before, " and so", 2, "vllm").text == f"{LONG} and so"
    assert begun(ASKED, before, " and so on" * 5, 9, "ollama").tokens == 21


SHORT, OTHER = Begun(b"", "It was", 3), Begun(b"", LONG, 12)


def test_a_closed_call_of_which_nothing_is_kept_is_all_waste():
    assert closed_tokens(50, 7, kept=None) == ClosedTokens(made=0, wasted=57)
    assert closed_tokens(50, 7, None, stored=OTHER) == ClosedTokens(0, 57), "it stays stored"


def test_of_what_is_kept_the_prompt_alone_is_waste():
    assert closed_tokens(50, 3, SHORT) == ClosedTokens(made=3, wasted=50)
    assert closed_tokens(53, 9, OTHER, before=SHORT, stored=SHORT) == ClosedTokens(9, 53)


def test_a_beginning_that_is_replaced_becomes_waste_whoever_it_answered():
    assert closed_tokens(50, 12, OTHER, stored=SHORT) == ClosedTokens(made=9, wasted=53)
    assert closed_tokens(50, 3, SHORT, stored=OTHER) == ClosedTokens(made=-9, wasted=62)
