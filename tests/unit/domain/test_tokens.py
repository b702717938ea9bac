"""Counts say what they rest on, and a text that surely fits needs none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.domain.tokens import Basis, Counted, Rough, surely_fits


def test_a_guess_says_that_it_is_one() -> None:
    counted = Rough().count(["four", "", "twelve chars"])
    assert counted == Counted((1, 1, 3), Basis.ROUGH)
    assert counted.is_rough
    assert counted.total == 5


def test_counts_of_a_tokenizer_are_no_guess() -> None:
    assert not Counted((3,), Basis.TOKENIZER).is_rough
    assert not Counted((3,), Basis.SERVER).is_rough


@given(st.text(), st.integers(1, 500))
def test_what_surely_fits_has_fewer_bytes_than_tokens_are_allowed(text: str, most: int) -> None:
    if surely_fits(text, most):
        assert len(text.encode("utf-8", "surrogatepass")) < most


def test_a_short_text_surely_fits_and_a_long_one_must_be_counted() -> None:
    assert surely_fits("a" * 400, 512)
    assert not surely_fits("a" * 600, 512)
    assert not surely_fits("漢" * 300, 512)
