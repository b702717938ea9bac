"""What every kind keeps, from the moment its file exists."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from app.domain.inference import (
    ChatReply,
    ChatRequest,
    EmbedReply,
    EmbedRequest,
    Usage,
    rough_tokens,
)
from app.domain.jobs import NO_MODEL
from app.domain.results import Item, ItemResult, Status
from app.errors import BadParams, BadReply
from app.kinds.base import Calls, Kind, ManySteps, OneCall, Params, checked, models_of
from app.kinds.registry import kinds
from app.services.stepping import output_of
from tests.docs_kind import translate
from tests.relay import KIND as RELAY

KINDS = [*kinds().values(), translate(), RELAY]
PARAMS: dict[str, dict[str, Any]] = {
    "embed": {"collection": "docs"},
    "evaluate": {"scorers": ["exact"]},
}
"""Parameters that a kind cannot do without, beside the model."""
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "evaluate": [
        {"scorers": ["numeric", "f1"], "repeats": 3, "prompt": "Q: {{ text }}"},
        {
            "scorers": ["judge", "embedding"],
            "repeats": 2,
            "options": {
                "judge": {"model": "j", "repeats": 2, "pairwise": True},
                "embedding": {"model": "e"},
            },
        },
        {"model": NO_MODEL, "scorers": ["contains"]},
        {
            "model": NO_MODEL,
            "scorers": ["judge"],
            "options": {"judge": {"model": "j"}},
        },
    ],
    "relay": [{"embedder": "e"}],
}
"""Ways to use a kind of several steps that differ in their steps."""
MOST_STEPS = 2_000


def params_of(kind: Kind, more: Mapping[str, Any] | None = None) -> Params:
    return checked(kind, {"model": "m", **PARAMS.get(kind.name, {}), **(more or {})})


def items(*texts: str) -> list[Item]:
    return [
        Item(n, f"k{n}", {"text": text, "expected": "an answer", "output": f"the answer to {text}"})
        for n, text in enumerate(texts, start=1)
    ]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    one: Kind = request.param
    return one


ONE_CALL = [one for one in KINDS if isinstance(one, OneCall)]
MANY_STEPS = [
    pytest.param(one, params_of(one, more), id=f"{one.name}-{number}")
    for one in KINDS
    if isinstance(one, ManySteps)
    for number, more in enumerate([{}, *VARIANTS.get(one.name, [])])
]
LONG = " ".join(f"Sentence number {n} tells of matter {n % 11}." for n in range(3_000))
TEXTS = ["a text", "one|two|three", LONG]


def test_its_name_is_a_word_and_its_own(kind: Kind) -> None:
    assert kind.name.isidentifier()
    assert len([one for one in KINDS if one.name == kind.name]) == 1


def test_it_answers_in_one_call_or_in_steps(kind: Kind) -> None:
    assert isinstance(kind, OneCall) != isinstance(kind, ManySteps)


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


@pytest.mark.parametrize("kind", ONE_CALL, ids=lambda kind: kind.name)
def test_it_reads_what_it_asked_for_in_order(kind: OneCall) -> None:
    params = params_of(kind)
    units = kind.prepare(items(*("a", "b", "c")[: 3 if kind.together else 1]), params).units
    request = kind.request(units, params)
    reply = an_answer_to(request)
    read = kind.read(units, reply, params)
    assert [result.seq for result in read.results] == [unit.item.seq for unit in units]
    assert {result.status for result in read.results} == {Status.DONE}
    assert (read.vectors is not None) == (kind.collection(params) is not None)


@pytest.mark.parametrize("kind", ONE_CALL, ids=lambda kind: kind.name)
def test_an_answer_of_the_wrong_sort_is_a_bad_reply(kind: OneCall) -> None:
    params = params_of(kind)
    units = kind.prepare(items("a"), params).units
    wrong: Any = ChatReply("text", "stop", Usage(1, 1), "m")
    if isinstance(kind.request(units, params), ChatRequest):
        wrong = EmbedReply(np.ones((1, 2), np.float32), Usage(1, 0), "m")
    with pytest.raises(BadReply):
        kind.read(units, wrong, params)


@pytest.mark.parametrize(("kind", "params"), MANY_STEPS)
class TestSteps:
    """Kinds of several steps, each way of using one, over texts of several lengths."""

    def test_an_item_comes_to_its_end_and_asks_no_step_twice(
        self, kind: ManySteps, params: Params
    ) -> None:
        for item in items(*TEXTS):
            asked, result = walked(kind, item, params)
            assert result.seq == item.seq
            assert result.status is Status.DONE
            assert len(set(asked)) == len(asked)

    def test_it_stands_alone_and_makes_no_vectors(self, kind: ManySteps, params: Params) -> None:
        assert not kind.together
        assert kind.collection(params) is None

    def test_the_same_arguments_give_the_same(self, kind: ManySteps, params: Params) -> None:
        for item in items(*TEXTS):
            done: dict[str, Any] = {}
            while True:
                said = kind.step(item, done, params)
                assert kind.step(item, dict(done), params) == said
                if isinstance(said, ItemResult):
                    break
                done |= {name: answer_of(call) for name, call in said.by_name.items()}

    def test_any_part_of_the_answers_leads_to_the_same_end(
        self, kind: ManySteps, params: Params
    ) -> None:
        """As after a restart: what is stored is not asked again, in whatever order it is read."""
        for item in items(*TEXTS):
            asked, result = walked(kind, item, params)
            whole = answers(kind, item, params)
            chance = random.Random(1)
            for length in {0, 1, len(asked) // 2, len(asked) - 1, len(asked)}:
                stored = [(name, whole[name]) for name in asked[: max(0, length)]]
                chance.shuffle(stored)
                again, end = walked(kind, item, params, dict(stored))
                assert end == result
                assert set(again) == set(asked) - {name for name, _ in stored}

    def test_it_changes_nothing_it_is_given(self, kind: ManySteps, params: Params) -> None:
        item = items(TEXTS[1])[0]
        before = dict(item.payload)
        walked(kind, item, params)
        assert item.payload == before

    def test_it_calls_no_model_that_it_does_not_name(self, kind: ManySteps, params: Params) -> None:
        models = models_of(kind, params)
        for item in items(*TEXTS):
            done: dict[str, Any] = {}
            while isinstance(said := kind.step(item, done, params), Calls):
                assert {call.model for call in said.by_name.values()} <= set(models)
                done |= {name: answer_of(call) for name, call in said.by_name.items()}

    def test_its_result_can_be_stored(self, kind: ManySteps, params: Params) -> None:
        import orjson

        for item in items(*TEXTS):
            output = walked(kind, item, params)[1].output
            assert orjson.loads(orjson.dumps(output)) == output


def walked(
    kind: ManySteps, item: Item, params: Params, stored: Mapping[str, Any] | None = None
) -> tuple[list[str], ItemResult]:
    """The steps asked for, in order, and the result, as execution goes about it."""
    done, asked = dict(stored or {}), []
    for _ in range(MOST_STEPS):
        said = kind.step(item, done, params)
        if isinstance(said, ItemResult):
            return asked, said
        new = {name: call for name, call in said.by_name.items() if name not in done}
        assert new, "no new step and no result"
        for name, call in new.items():
            asked.append(name)
            done[name] = answer_of(call)
    raise AssertionError(f"no end after {MOST_STEPS} rounds")


def answers(kind: ManySteps, item: Item, params: Params) -> dict[str, Any]:
    done: dict[str, Any] = {}
    while isinstance(said := kind.step(item, done, params), Calls):
        done |= {name: answer_of(call) for name, call in said.by_name.items()}
    return done


def answer_of(call: EmbedRequest | ChatRequest) -> Any:
    """What a step would keep of an answer: the same for the same request, shorter than asked."""
    return output_of(an_answer_to(call))


def an_answer_to(request: EmbedRequest | ChatRequest) -> EmbedReply | ChatReply:
    if isinstance(request, EmbedRequest):
        rows = [[float(rough_tokens(text)), 1.0, 0.5] for text in request.texts]
        return EmbedReply(np.asarray(rows, np.float32), Usage(9, 0), request.model)
    if request.response_format is not None:
        said = '{"reason": "so", "score": 4, "better": "first"}'
        return ChatReply(said, "stop", Usage(5, 4), request.model)
    words = request.messages[-1].content.split()
    most = min(request.max_tokens or 64, 64, max(1, len(words) // 2))
    return ChatReply(" ".join(words[:most]), "stop", Usage(5, 4), request.model)
