"""What calls came to where the server tells no usage: counted, or a guess that says it is one."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from app import clock
from app.domain.inference import ChatReply, ChatRequest, EmbedReply, EmbedRequest, Message, Usage
from app.domain.requests import NewRequest
from app.domain.tokens import Basis, Counted, Rough
from app.inference import tokens
from app.inference.wire import Wire
from app.services.usage import with_usage
from tests.rig import MakeRig, Rig

CHAT = ChatRequest("m", (Message("system", "a b"), Message("user", "c d e")))
GUESSED = ChatReply("f g h i", None, Usage(7, 7, rough=True), "m")


def words(texts: Sequence[str]) -> Counted:
    return Counted(tuple(len(text.split()) for text in texts), Basis.TOKENIZER)


def test_what_can_be_counted_is_counted_on_both_sides() -> None:
    assert with_usage(GUESSED, CHAT, words).usage == Usage(2 + 3, 4)
    silent = replace(GUESSED, text="")
    assert with_usage(silent, CHAT, words).usage == Usage(2 + 3, 0)


def test_the_servers_own_usage_counts_and_a_guess_stays_one() -> None:
    told = replace(GUESSED, usage=Usage(70, 30))
    assert with_usage(told, CHAT, words) is told
    assert with_usage(GUESSED, CHAT, Rough().count) is GUESSED


@pytest.fixture
def silent(rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """An endpoint that tells no usage."""
    embed = Wire.embed

    def bare(self: Wire, request: EmbedRequest, **more: Any) -> EmbedReply:
        reply = embed(self, request, **more)
        return replace(reply, usage=Usage(5 * len(request.texts), 0, rough=True))

    monkeypatch.setattr(Wire, "embed", bare)
    return rig()


def ask(one: Rig) -> None:
    at = clock.now()
    new = NewRequest(uuid.uuid4(), "main", "embed", "fake-embed", at)
    one.wiring.interactive.run(new, EmbedRequest("fake-embed", ("one two three",)))


def test_the_report_says_what_was_guessed(silent: Rig) -> None:
    silent.work(silent.submit([f"text {n}" for n in range(30)]).job.id)
    ask(silent)
    silent.settle()
    report = silent.wiring.reporting.report(600)
    assert (report.tokens, report.rough_tokens) == (31 * 5, 31 * 5)


def test_a_tokenizer_counts_in_place_of_the_server(
    silent: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens.Best, "count_here", lambda _, texts: words(texts))
    silent.work(silent.submit([f"text {n}" for n in range(30)]).job.id)
    ask(silent)
    silent.settle()
    report = silent.wiring.reporting.report(600)
    assert (report.tokens, report.rough_tokens) == (30 * 2 + 3, 0)
