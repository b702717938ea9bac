"""Vectors are taken only when they can be right, and each goes to its own text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import errors
from app.domain.inference import Usage, checked_vectors, rough_tokens


def test_vectors_are_placed_by_index_and_not_by_order():
    vectors = checked_vectors([(1, [3.0, 4.0]), (0, [1.0, 2.0])], 2)

    assert vectors.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert vectors.dtype == np.float32


@pytest.mark.parametrize(
    ("pairs", "n", "dim", "named"),
    [
        ([(0, [1.0])], 2, None, "1 vectors for 2 texts; the first without one is 1"),
        (
            [(0, [1.0, 2.0]), (2, [1.0, 2.0])],
            3,
            None,
            "2 vectors for 3 texts; the first without one is 1",
        ),
        ([], 1, None, "0 vectors for 1 texts"),
        ([(0, [1.0]), (0, [2.0])], 2, None, "index 0 comes twice"),
        ([(0, [1.0]), (2, [2.0])], 2, None, "index 2 is out of range; 2 texts"),
        ([(-1, [1.0])], 1, None, "index -1 is out of range"),
        ([(0, [1.0]), (1, [1.0])], 1, None, "index 1 is out of range"),
        ([(0, [1.0, float("nan")])], 1, None, "vector 0 holds NaN"),
        ([(0, [1.0]), (1, [float("inf")])], 2, None, "vector 1 holds NaN or infinity"),
        ([(0, [1.0, None])], 1, None, "vector 0"),
        ([(0, ["one"])], 1, None, "vector 0 is not a list of numbers"),
        ([(0, {"a": 1})], 1, None, "vector 0 is not a list of numbers"),
        ([(0, [0.0, 0.0])], 1, None, "vector 0 is nothing but zeros"),
        ([(0, [1.0, 2.0]), (1, [1.0])], 2, None, "vector 1 has 1 numbers; 2 numbers expected"),
        ([(0, [1.0, 2.0])], 1, 3, "vector 0 has 2 numbers; 3 numbers expected"),
        ([(0, [])], 1, None, "vector 0 has 0 numbers"),
        ([(0, [[1.0, 2.0]])], 1, 2, "vector 0 has the shape (1, 2)"),
    ],
)
def test_a_reply_that_cannot_be_right_is_refused_with_its_reason(pairs, n, dim, named):
    with pytest.raises(errors.BadReply) as refused:
        checked_vectors(pairs, n, dim)

    assert named in str(refused.value)


def test_nothing_asked_gives_nothing():
    assert checked_vectors([], 0, 8).shape == (0, 8)


@given(st.permutations(range(7)))
def test_the_order_of_a_reply_never_matters(order):
    pairs = [(index, [float(index + 1), 1.0]) for index in order]

    assert checked_vectors(pairs, 7, 2)[:, 0].tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_tokens_are_guessed_at_four_characters_each():
    assert [rough_tokens(text) for text in ("", "abc", "abcd", "abcde")] == [1, 1, 1, 2]
    assert Usage(3, 4).total_tokens == 7
