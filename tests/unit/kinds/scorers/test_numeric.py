"""The number that an answer ends in, read as a person would."""

from __future__ import annotations

import json
import time
from fractions import Fraction
from pathlib import Path

import pytest

from app.kinds.scorers.base import Case, State
from app.kinds.scorers.final_number import final_number
from app.kinds.scorers.numeric import SCORER, NumericOptions

GSM8K = Path(__file__).parents[5] / "shared" / "data" / "gsm8k_test.jsonl"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        # where it stands
        ("She has 3 and 4.\n#### 42", "42"),
        ("The answer is 42.", "42"),
        ("The answer is 6 * 7 = 42 dollars.", "42"),
        ("The answer is **18**.", "18"),
        ("**Answer:** $1,234.50 a month", "1234.5"),
        ("Final answer = -7", "-7"),
        ("The answer is 5. I checked it 3 times.", "5"),
        ("\\boxed{18} as 9 * 2", "18"),
        ("$\\boxed{\\frac{3}{4}}$", "3/4"),
        ("\\boxed{1{,}200}", "1200"),
        ("He ran 3, 4, and 5 miles", "5"),
        ("The answer is unknown. There are 5 apples", "5"),
        # how it is written
        ("1,234", "1234"),
        ("70,000", "70000"),
        ("12,34,567", "1234567"),
        ("1'000'000", "1000000"),
        ("12 345,5 zł", "12345.5"),
        ("1.234,56 EUR", "1234.56"),
        ("1.234", "1.234"),
        ("€ 3,5", "3.5"),
        ("$-5", "-5"),
        ("-$5", "-5"),
        ("−7 °C", "-7"),
        ("3 - 5", "5"),
        ("- 5 apples", "5"),
        ("10-5=5", "5"),
        ("3/4 cup", "3/4"),
        ("1 1/2 hours", "3/2"),
        ("1e3", "1000"),
        ("1.5 x 10^3", "1500"),
        ("10 million people", "10000000"),
        ("5km", "5"),
        ("x=42", "42"),
        ("$20.", "20"),
        (".5", "0.5"),
    ],
)
def test_it_is_found_and_read(text: str, number: str) -> None:
    found = final_number(text)
    assert found is not None
    assert (found.value, found.percent) == (Fraction(number), False)


@pytest.mark.parametrize("text", ["", "no number", "v2 of abc12", "5/0", "9" * 100])
def test_where_there_is_none_none_is_found(text: str) -> None:
    assert final_number(text) is None


@pytest.mark.parametrize(
    ("answer", "expected", "value"),
    [
        ("50%", "0.5", 1.0),
        ("50%", "50", 1.0),
        ("0.5", "50 %", 1.0),
        ("0.5%", "50%", 0.0),
        ("50", "0.5", 0.0),
        ("0.3333", "1/3", 0.0),
        ("2/4", "0.5", 1.0),
        ("I do not know", "5", 0.0),
        ("", "5", 0.0),
        ("It is 18", "9 * 2 = <<9*2=18>>18\n#### 18", 1.0),
    ],
)
def test_numbers_are_compared_by_what_they_mean(answer: str, expected: str, value: float) -> None:
    assert SCORER.score(Case("q", answer, expected), NumericOptions()).value == value


def test_a_difference_is_allowed_where_it_is_asked_for() -> None:
    case = Case("q", "0.3333", "1/3")
    assert SCORER.score(case, NumericOptions(relative=1e-3)).value == 1.0
    assert SCORER.score(case, NumericOptions(absolute=1e-3)).value == 1.0


def test_a_number_of_the_data_set_need_not_be_text() -> None:
    assert SCORER.score(Case("q", "it is 42", 42), NumericOptions()).value == 1.0
    assert SCORER.score(Case("q", "it is 42", [7, 42.0]), NumericOptions()).value == 1.0


@pytest.mark.parametrize(
    ("expected", "code"), [(None, "no_expected"), ("none of them", "no_expected_number")]
)
def test_without_an_expected_number_there_is_no_score(expected: str | None, code: str) -> None:
    score = SCORER.score(Case("q", "42", expected), NumericOptions())
    assert (score.value, score.state, score.code) == (None, State.ERROR, code)


@pytest.mark.parametrize(
    "text", ["1 " * 50_000, "9" * 100_000, "1,111" * 20_000, "answer is " * 10_000]
)
def test_long_answers_cost_little(text: str) -> None:
    began = time.monotonic()
    final_number(text)
    assert time.monotonic() - began < 20  # What tries each end of each number takes hours.


@pytest.mark.skipif(not GSM8K.is_file(), reason=f"{GSM8K} is not here")
def test_every_gold_answer_of_gsm8k_is_read_and_agrees_with_itself() -> None:
    rows = [json.loads(line) for line in GSM8K.read_text().splitlines()]
    assert len(rows) == 1_319
    for row in rows:
        gold = row["answer"].rpartition("####")[2].strip()
        score = SCORER.score(Case(row["question"], row["answer"], gold), NumericOptions())
        assert (score.value, score.notes["found"]) == (1.0, gold.replace(",", ""))
