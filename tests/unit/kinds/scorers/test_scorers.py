"""Scorers by example; what keeps them from a score is a state and never a number."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest

from app.kinds.scorers.base import Asking, Case, Local, Score, State
from app.kinds.scorers.registry import scorer, scorers


def scored(name: str, answer: str, expected: Any, **options: Any) -> Score:
    one = scorer(name)
    assert isinstance(one, Local)
    return one.score(Case("a question", answer, expected), one.options.model_validate(options))


@pytest.mark.parametrize("name", sorted(scorers()))
def test_every_scorer_has_a_way_to_score(name: str) -> None:
    one = scorer(name)
    assert isinstance(one, Local) != isinstance(one, Asking)
    assert one.name == name
    assert name.isidentifier()


@pytest.mark.parametrize("name", sorted(n for n, s in scorers().items() if isinstance(s, Local)))
def test_without_an_expected_answer_there_is_no_score(name: str) -> None:
    score = scored(name, "an answer", None)
    assert (score.value, score.state, score.code) == (None, State.ERROR, "no_expected")


@pytest.mark.parametrize("name", ["exact", "contains", "f1", "rouge_l", "bleu", "edit"])
def test_the_expected_text_itself_is_wholly_right_and_nothing_is_wholly_wrong(name: str) -> None:
    text = "The quick brown fox jumps over the lazy dog."
    assert scored(name, text, text).value == pytest.approx(1.0)
    assert scored(name, "", text).value == 0.0
    assert scored(name, text, ["something else", text]).value == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("answer", "expected", "options", "value"),
    [
        ("Paris ", "Paris", {}, 1.0),
        ("paris", "Paris", {}, 0.0),
        ("paris", "Paris", {"ignore_case": True}, 1.0),
        ("Paris!", "paris", {"ignore_punctuation": True}, 1.0),
        ("cafe\u0301", "caf\u00e9", {}, 1.0),
        ("1,000", "1000", {"ignore_punctuation": True}, 1.0),
        ("the U.S.", "The US", {"ignore_punctuation": True}, 1.0),
        ("“don’t”", "dont", {"ignore_punctuation": True}, 1.0),
        ("3.5", "35", {"ignore_punctuation": True}, 0.0),
        ("-5", "5", {"ignore_punctuation": True}, 0.0),
        ("C++", "C", {"ignore_punctuation": True}, 0.0),
        ("👍", "👎", {"ignore_punctuation": True}, 0.0),
        ("👍", "", {"ignore_punctuation": True}, 0.0),
        ("?", "!", {"ignore_punctuation": True}, 0.0),
        ("की", "का", {"ignore_punctuation": True}, 0.0),
        ("", "", {"ignore_punctuation": True}, 1.0),
    ],
)
def test_exact(answer: str, expected: str, options: dict[str, Any], value: float) -> None:
    assert scored("exact", answer, expected, **options).value == value


def test_contains_asks_for_one_of_several_or_for_all() -> None:
    assert scored("contains", "It is PARIS, in France", ["paris", "Rome"]).value == 1.0
    assert scored("contains", "It is Paris", ["Paris", "France"], all=True).value == 0.0
    assert scored("contains", "anything", "").state is State.ERROR


def test_regex_takes_a_pattern_of_its_own_or_the_items() -> None:
    assert scored("regex", "call 030-1234", None, pattern=r"\d{3}-\d{4}").value == 1.0
    assert scored("regex", "Yes.", r"^yes", ignore_case=True).value == 1.0
    assert scored("regex", "x", "(").code == "bad_pattern"


def test_a_pattern_that_backtracks_without_end_holds_nobody_up() -> None:
    began = time.monotonic()
    score = scored("regex", "a" * 40 + "b", None, pattern="(a|a)+$", timeout_s=0.2)
    assert score.code == "regex_timeout"
    assert time.monotonic() - began < 20  # It would take years.


@pytest.mark.parametrize(
    ("answer", "expected", "value"),
    [
        ("The cat sat", "a cat", 2 / 3),  # by hand: 1 shared of 2 and 1, articles left out
        ("dog", "cat", 0.0),
        ("cat cat", "cat", 2 / 3),
        ("1,000", "1000", 1.0),
        ("U.S.", "US", 1.0),
        ("don't", "dont", 1.0),
        ("well-known", "wellknown", 1.0),
        ("well-known", "well known", 0.0),
        ("The Cat!", "a cat", 1.0),
        ("Ann a Bell", "Ann Bell", 1.0),
        ("👍", "👎", 0.0),
        ("👍", "", 0.0),
        ("", "👍", 0.0),
        ("👍", "👍", 1.0),
        ("yes 👍", "yes 👎", 0.5),
        ("!", "?", 0.0),
        ("the", "a", 0.0),
        ("", "", 1.0),
        ("की", "का", 0.0),
        ("$5", "5", 1.0),
    ],
)
def test_f1_as_squad_counts(answer: str, expected: str, value: float) -> None:
    assert scored("f1", answer, expected).value == pytest.approx(value)


@pytest.mark.parametrize(
    ("answer", "expected", "value"),
    [
        # As google's rouge-score 0.1.2 has them, without its stemmer.
        ("the cat sat on the mat", "a cat is on the mat", 0.6666666666666666),
        ("Police killed the gunman.", "the gunman police killed", 0.5),
        ("one two three four", "four three two one", 0.25),
        ("Hello, World! It's 3.5 km", "hello world it is 3 5 km", 0.8571428571428571),
        # Where that one sees nothing at all, since it is made for English.
        ("👍", "👎", 0.0),
        ("👍", "", 0.0),
        ("👍", "👍", 1.0),
        ("!", "?", 0.0),
        ("", "", 1.0),
        ("की", "का", 0.0),
        ("très bon", "tres bon", 0.5),
    ],
)
def test_rouge_l_agrees_with_the_reference(answer: str, expected: str, value: float) -> None:
    assert scored("rouge_l", answer, expected).value == pytest.approx(value)


def test_bleu_is_sacrebleus() -> None:
    from sacrebleu import sentence_bleu

    answer, expected = "The fast brown fox leaps over a dog", "The quick brown fox leaps over a dog"
    assert scored("bleu", answer, expected).value == pytest.approx(
        sentence_bleu(answer, [expected]).score / 100
    )


def test_edit_is_the_share_of_characters_that_stay() -> None:
    assert scored("edit", "kitten", "sitting").value == pytest.approx(1 - 3 / 7)


SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ('{"a": 1}', 1.0),
        ('```json\n{"a": 1}\n```', 1.0),
        ('```json {"a": 1}```', 1.0),
        ('```json{"a": 1}```', 1.0),
        ('``` {"a": 1} ```', 1.0),
        ('```{"a": 1}```', 1.0),
        ('`{"a": 1}`', 1.0),
        ('~~~json\r\n{"a": 1}\r\n~~~', 1.0),
        ('````json title="x"\n{"a": 1}\n````', 1.0),
        ('```json\n{"a": 1}', 0.0),
        ('```json {"a": 1}``` and more', 0.0),
        ('{"a": 1, "b": NaN}', 0.0),
        ('{"a": 1, "b": [Infinity]}', 0.0),
        ('{"a": 1, "b": -Infinity}', 0.0),
        ('{"a": ' + "9" * 5_000 + "}", 0.0),
        ('{"a": 1, "b": "NaN"}', 1.0),
        ('{"a": "1"}', 0.0),
        ('Sure! {"a": 1}', 0.0),
        ("[" * 100_000, 0.0),
    ],
)
def test_json_has_to_be_all_of_the_answer_and_fit(answer: str, value: float) -> None:
    assert scored("json_schema", answer, None, schema=SCHEMA).value == value
    assert scored("json_schema", answer, SCHEMA).value == value
    assert scored("json_schema", answer, json.dumps(SCHEMA)).value == value


@pytest.mark.parametrize("word", ["true", "null", "5", '"x"'])
def test_a_value_by_itself_is_json_in_a_fence_of_one_line_too(word: str) -> None:
    assert scored("json_schema", f"```{word}```", True).value == 1.0


def test_a_schema_that_is_none_is_refused_and_one_elsewhere_never_fetched() -> None:
    with pytest.raises(ValueError, match="not a JSON schema"):
        scored("json_schema", "{}", None, schema={"type": "nonsense"})
    assert scored("json_schema", "{}", {"type": "nonsense"}).code == "bad_schema"
    from referencing.exceptions import Unresolvable

    with pytest.raises(Unresolvable):
        scored("json_schema", "{}", {"$ref": "http://127.0.0.1:9/schema.json"})


class TestEmbedding:
    def test_it_asks_for_all_texts_at_once_and_takes_the_closest(self) -> None:
        one, options = asking("embedding", model="e", prefix="q: ")
        case = Case("q", "answer", ["far", "near"])
        (call,) = one.ask(case, options).values()
        assert call.texts == ("q: answer", "q: far", "q: near")
        vectors = [[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]]
        assert one.read(case, {"vectors": vectors}, options).value == pytest.approx(np.sqrt(0.5))

    def test_a_blank_answer_is_like_nothing_and_never_sent(self) -> None:
        one, options = asking("embedding", model="e")
        case = Case("q", " \u200b", "x")
        assert (one.ask(case, options), one.read(case, {}, options).value) == ({}, 0.0)
        assert one.read(Case("q", "x", None), {}, options).code == "no_expected"

    def test_opposite_vectors_are_not_below_nought(self) -> None:
        one, options = asking("embedding", model="e")
        score = one.read(Case("q", "a", "b"), {"vectors": [[1.0, 0.0], [-1.0, 0.0]]}, options)
        assert score.value == 0.0


class TestJudge:
    def test_a_grade_is_moved_to_nought_to_one(self) -> None:
        assert judged('{"reason": "fine", "score": 4}').value == 0.75
        assert judged('{"score": 10}', lowest=0, highest=10).value == 1.0

    @pytest.mark.parametrize(
        "reply",
        [
            "I would say 4 of 5.",
            "",
            "4",
            '{"score": "4"}',
            '{"score": 4.5}',
            '{"score": true}',
            '{"score": 6}',
            '{"score": 0}',
            '{"score": NaN}',
            '{"score": null}',
            '{"grade": 4}',
            '{"score": 4',
            'Here it is: {"score": 4}',
            "[" * 50_000,
        ],
    )
    def test_whatever_is_no_verdict_is_invalid_and_no_score(self, reply: str) -> None:
        score = judged(reply)
        assert (score.value, score.state) == (None, State.JUDGE_INVALID)

    def test_of_several_verdicts_more_than_half_have_to_be_valid(self) -> None:
        assert judged('{"score": 5}', "no", '{"score": 3}', repeats=3).value == 0.75
        assert judged('{"score": 5}', "no", "no", repeats=3).state is State.JUDGE_INVALID

    def test_repeats_differ_in_their_seed(self) -> None:
        one, options = asking("judge", model="j", repeats=3)
        calls = one.ask(Case("q", "a", "e"), options)
        assert [call.seed for call in calls.values()] == [1, 2, 3]

    def test_a_pair_is_judged_in_both_orders(self) -> None:
        one, options = asking("judge", model="j", pairwise=True)
        calls = one.ask(Case("q", "MINE", "THEIRS"), options)
        assert list(calls) == ["1:ab", "1:ba"]
        ab, ba = (call.messages[-1].content for call in calls.values())
        assert ab.index("MINE") < ab.index("THEIRS")
        assert ba.index("MINE") > ba.index("THEIRS")

    @pytest.mark.parametrize(
        ("ab", "ba", "value", "order_decides"),
        [
            ("first", "second", 1.0, False),
            ("second", "first", 0.0, False),
            ("first", "first", 0.5, True),
            ("tie", "tie", 0.5, False),
            ("first", "tie", 0.75, False),
        ],
    )
    def test_a_taste_for_the_first_place_cancels_out(
        self, ab: str, ba: str, value: float, order_decides: bool
    ) -> None:
        one, options = asking("judge", model="j", pairwise=True)
        answers = {"1:ab": said_better(ab), "1:ba": said_better(ba)}
        score = one.read(Case("q", "a", "b"), answers, options)
        assert (score.value, score.notes["order_decides"]) == (value, order_decides)

    def test_the_scale_has_to_be_one(self) -> None:
        with pytest.raises(ValueError, match="lowest must be below highest"):
            asking("judge", model="j", lowest=5, highest=5)


def asking(name: str, **options: Any) -> Any:
    one = scorer(name)
    assert isinstance(one, Asking)
    return one, one.options.model_validate(options)


def judged(*replies: str, **options: Any) -> Score:
    one, checked = asking("judge", model="j", **options)
    answers = {str(n): {"text": reply} for n, reply in enumerate(replies, start=1)}
    score: Score = one.read(Case("q", "a", "e"), answers, checked)
    return score


def said_better(word: str) -> dict[str, str]:
    return {"text": json.dumps({"reason": "so", "better": word})}
