"""generate: templates, system prompts, and answers from the world."""

from __future__ import annotations

import pytest

from app.domain.inference import ChatReply, ChatRequest, Message, Usage
from app.domain.results import Item, Status
from app.errors import BadParams
from app.kinds.base import checked
from app.kinds.generate import KIND


def test_the_prompt_is_a_template_over_the_items_fields() -> None:
    given = {"model": "m", "prompt": "{{ title }}: {{ text | upper }}", "system": "Be brief."}
    params = checked(KIND, given)
    item = Item(1, "k", {"text": "words", "title": "On it"})
    request = KIND.request(KIND.prepare([item], params).units, params)
    assert isinstance(request, ChatRequest)
    assert request.messages == (Message("system", "Be brief."), Message("user", "On it: WORDS"))


def test_a_field_that_is_not_there_fails_its_item_before_any_call() -> None:
    params = checked(KIND, {"model": "m", "prompt": "{{ titel }}"})
    prepared = KIND.prepare([Item(1, "k", {"text": "words"})], params)
    assert not prepared.units
    assert (prepared.results[0].status, prepared.results[0].code) == (Status.FAILED, "template")
    assert "titel" in (prepared.results[0].error or "")


def test_a_broken_template_is_refused_at_submission() -> None:
    with pytest.raises(BadParams, match="not a template"):
        checked(KIND, {"model": "m", "prompt": "{{ text"})


def test_a_template_reaches_nothing_but_its_fields() -> None:
    params = checked(KIND, {"model": "m", "prompt": "{{ text.__class__.__mro__ }}"})
    prepared = KIND.prepare([Item(1, "k", {"text": "words"})], params)
    assert prepared.results[0].code == "template"


def test_what_postgres_refuses_is_cleaned_out_of_an_answer_and_flagged() -> None:
    params = checked(KIND, {"model": "m"})
    units = KIND.prepare([Item(1, "k", {"text": "words"})], params).units
    read = KIND.read(units, ChatReply("a\x00b", "stop", Usage(1, 1), "m"), params)
    assert read.results[0].output == {"text": "ab", "finish_reason": "stop", "cleaned": "nul"}
