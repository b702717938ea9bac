"""Micro-batches hold everything once, in order, within both bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.domain.packing import packed


@given(st.lists(st.integers(1, 500), max_size=200), st.integers(1, 40), st.integers(1, 1000))
def test_nothing_is_lost_and_both_bounds_hold(
    tokens: list[int], most_items: int, most_tokens: int
) -> None:
    items = list(range(len(tokens)))
    batches = [list(batch) for batch in packed(items, tokens, most_items, most_tokens)]
    assert [item for batch in batches for item in batch] == items
    for batch in batches:
        assert 1 <= len(batch) <= most_items
        assert len(batch) == 1 or sum(tokens[item] for item in batch) <= most_tokens


def test_batches_are_as_full_as_they_may_be() -> None:
    assert list(packed("abcdef", [1] * 6, 4, 100)) == ["abcd", "ef"]
    assert list(packed("abc", [60, 60, 10], 4, 100)) == ["a", "bc"]
    assert list(packed("", [], 4, 100)) == []


def test_what_is_too_heavy_stands_alone() -> None:
    assert list(packed("abc", [1, 500, 1], 4, 100)) == ["a", "b", "c"]
