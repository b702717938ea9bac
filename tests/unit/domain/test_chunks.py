"""Chunks: halves lose nothing, and a crash leads where it should."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.chunks import Bury, Rearm, Seqs, Split, after_crash, chunk_size, halves, paced_size


def all_of(seqs: Seqs) -> list[int]:
    return list(seqs.listed) if seqs.listed is not None else list(range(seqs.first, seqs.last + 1))


@given(st.integers(1, 10_000), st.integers(1, 5_000))
def test_the_halves_of_a_run_are_the_run(first: int, more: int) -> None:
    whole = Seqs(first, first + more)
    left, right = halves(whole)
    assert all_of(left) + all_of(right) == all_of(whole)
    assert abs(left.count - right.count) <= 1


@given(st.lists(st.integers(1, 10_000), min_size=2, unique=True).map(sorted))
def test_the_halves_of_a_list_are_the_list(listed: list[int]) -> None:
    left, right = halves(Seqs(listed[0], listed[-1], tuple(listed)))
    assert all_of(left) + all_of(right) == listed
    assert (left.first, right.last) == (listed[0], listed[-1])


def test_one_item_cannot_be_halved() -> None:
    with pytest.raises(ValueError, match="cannot be split"):
        halves(Seqs(3, 3))


def test_chunks_are_alike_in_calls_not_in_items() -> None:
    assert chunk_size(512, 64, calls_an_item=False) == 512
    assert chunk_size(512, 64, calls_an_item=True) == 8
    assert chunk_size(10, 64, calls_an_item=True) == 1


def test_a_crash_rearms_then_splits_then_buries() -> None:
    run = Seqs(1, 8)
    assert after_crash(run, 2, 3) == Rearm()
    assert after_crash(run, 3, 3) == Split(Seqs(1, 4), Seqs(5, 8))
    assert after_crash(Seqs(5, 5), 3, 3) == Bury(5)


@given(st.integers(1, 2_000), st.data())
def test_a_poison_item_is_cornered_in_logarithmic_time(size: int, data: st.DataObject) -> None:
    poison = data.draw(st.integers(1, size))
    here, splits = Seqs(1, size), 0
    while True:
        match after_crash(here, 3, 3):
            case Bury(seq):
                assert seq == poison
                break
            case Split(left, right):
                here = left if poison in all_of(left) else right
                splits += 1
    assert splits <= size.bit_length()


@pytest.mark.parametrize(
    ("items_per_s", "total", "size"),
    [
        (None, 300_000, 512),  # Nothing is known of such jobs.
        (25.6, 300_000, 512),
        (300.0, 300_000, 6000),  # 20 s at that pace.
        (300.0, 64_000, 2000),  # Eight places have four chunks each.
        (300.0, 1_000, 512),  # A small job keeps its chunks.
        (9000.0, 3_000_000, 10_000),
        (0.2, 300_000, 4),  # Slow items: fewer of them, not four minutes.
        (0.001, 300_000, 1),
    ],
)
def test_a_chunk_is_twenty_seconds_of_work_where_the_pace_is_known(
    items_per_s: float | None, total: int, size: int
) -> None:
    assert paced_size(512, items_per_s, 20.0, total, 8) == size
