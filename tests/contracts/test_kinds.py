"""What every kind keeps, from the moment its file exists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.domain.inference import ChatReply, ChatRequest, EmbedReply, EmbedRequest, Usage
from app.domain.results import Item, Status
from app.errors import BadParams, BadReply
from app.kinds.base import Kind, Params, checked
from app.kinds.registry import kinds

KINDS = list(kinds().values())
PARAMS: dict[str, dict[str, Any]] = {"embed": {"collection": "docs"}}
"""Parameters that a kind cannot do without, beside the model."""


def params_of(kind: Kind) -> Params:
    return checked(kind, {"model": "m", **PARAMS.get(kind.name, {})})


def items(*texts: str) -> list[Item]:
    return [Item(n, f"k{n}", {"text": text}) for n, text in enumerate(texts, start=1)]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    one: Kind = request.param
    return one


def test_its_name_is_a_word_and_its_own(kind: Kind) -> None:
    assert kind.name.isidentifier()
    assert kinds()[kind.name] is kind


def test_misspelt_parameters_are_refused_with_the_known_ones(kind: Kind) -> None:
    with pytest.raises(BadParams, match=r"modle.*known parameters: .*model"):
        checked(kind, {"modle": "m"})


def test_every_item_is_either_sent_or_has_its_result(kind: Kind) -> None:
    given = items("a text", "", "another", "  \n")
    prepared = kind.prepare(given, params_of(kind))
    sent = {unit.item.seq for unit in prepared.units}
    at_once = {result.seq for result in prepared.results}
    assert sent | at_once == {1, 2, 3, 4}
    assert not sent & at_once


def test_a_blank_text_is_recorded_as_empty_and_not_sent(kind: Kind) -> None:
    prepared = kind.prepare(items("", "\u200b"), params_of(kind))
    assert not prepared.units
    assert {result.status for result in prepared.results} == {Status.EMPTY}


def test_content_hashes_tell_texts_and_parameters_apart(kind: Kind) -> None:
    params = params_of(kind)
    one, other = kind.prepare(items("a", "b"), params).units
    again = kind.prepare(items("a"), params).units[0]
    moved = kind.prepare(items("a"), params.model_copy(update={"model": "n"})).units[0]
    assert one.content_hash == again.content_hash
    assert len({one.content_hash, other.content_hash, moved.content_hash}) == 3


def test_it_reads_what_it_asked_for_in_order(kind: Kind) -> None:
    params = params_of(kind)
    units = kind.prepare(items(*("a", "b", "c")[: 3 if kind.together else 1]), params).units
    request = kind.request(units, params)
    reply = an_answer_to(request)
    read = kind.read(units, reply, params)
    assert [result.seq for result in read.results] == [unit.item.seq for unit in units]
    assert {result.status for result in read.results} == {Status.DONE}
    assert (read.vectors is not None) == (kind.collection(params) is not None)


def test_an_answer_of_the_wrong_sort_is_a_bad_reply(kind: Kind) -> None:
    params = params_of(kind)
    units = kind.prepare(items("a"), params).units
    wrong: Any = ChatReply("text", "stop", Usage(1, 1), "m")
    if isinstance(kind.request(units, params), ChatRequest):
        wrong = EmbedReply(np.ones((1, 2), np.float32), Usage(1, 0), "m")
    with pytest.raises(BadReply):
        kind.read(units, wrong, params)


def an_answer_to(request: EmbedRequest | ChatRequest) -> EmbedReply | ChatReply:
    if isinstance(request, EmbedRequest):
        vectors = np.ones((len(request.texts), 3), np.float32)
        return EmbedReply(vectors, Usage(9, 0), request.model)
    return ChatReply("an answer", "stop", Usage(5, 4), request.model)
