"""The knee: the smallest size that does nearly as well as the best, found by trying others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.domain.knees import NEARLY, Knee, Most, Size, knee, sized

MOST = Most(items=64, tokens=16_384)


def at(calls: int, items: int, seconds: float, tokens_an_item: int = 20) -> Size:
    n = calls * items
    return Size(calls, n, n * tokens_an_item, seconds * calls)


def test_the_smallest_size_that_nearly_reaches_the_best_is_the_knee() -> None:
    found = knee([at(10, 64, 6.4), at(10, 32, 3.2), at(10, 16, 1.6), at(10, 8, 1.5)])
    assert found == Knee(items=16, tokens=320)


def test_while_throughput_still_rises_the_largest_is_the_knee() -> None:
    found = knee([at(10, 64, 1.0), at(10, 32, 0.9), at(10, 16, 0.85)])
    assert found == Knee(items=64, tokens=1280)


def test_one_size_or_a_few_calls_tell_nothing() -> None:
    assert knee([]) is None
    assert knee([at(50, 64, 1.0)]) is None
    assert knee([at(50, 64, 1.0), at(2, 32, 0.1)]) is None


def test_calls_so_quick_that_storing_them_takes_longer_do_not_draw_the_size_down() -> None:
    found = knee([at(10, 64, 0.00064), at(10, 32, 0.00032), at(10, 1, 0.00001)])
    assert found == Knee(items=64, tokens=1280)


def test_while_nothing_is_learnt_seven_chunks_of_eight_are_cut_as_ever() -> None:
    cuts = [sized(None, no, MOST) for no in range(1, 9)]
    assert cuts.count(MOST) == 7
    assert cuts[4] == Most(32, 8_192)


def test_a_learnt_size_never_passes_the_bounds() -> None:
    for no in range(1, 9):
        cut = sized(Knee(items=60, tokens=30_000), no, MOST)
        assert cut.items <= 64
        assert cut.tokens <= 16_384
    assert sized(Knee(items=0.2, tokens=3), 1, MOST) == Most(1, 3)


def learnt(seconds_of: Callable[[float], float], rounds: int = 12) -> float:
    """Where the size settles at an endpoint whose calls of so many tokens take `seconds_of`."""
    known: Knee | None = None
    for _ in range(rounds):
        # A window's calls: those of the sizes that eight chunks are cut to.
        cuts = [sized(known, no, Most(10_000, 100_000)) for no in range(1, 9)]
        tokens = [min(cut.tokens, cut.items * 20) for cut in cuts]
        sizes = {one: Size(8, 8 * one // 20, 8 * one, 8 * seconds_of(one)) for one in set(tokens)}
        known = knee(list(sizes.values())) or known
    assert known is not None
    return known.tokens


@pytest.mark.parametrize("overhead_s", [0.0125, 0.05])
def test_from_far_too_large_it_shrinks_until_throughput_would_suffer(overhead_s: float) -> None:
    def seconds_of(tokens: float) -> float:
        return overhead_s + 0.00006 * tokens

    settled = learnt(seconds_of)
    assert settled < 100_000 / 4
    reached = settled / (seconds_of(settled) + 0.005)
    assert reached >= (NEARLY - 0.03) / 0.00006


def test_an_endpoint_that_slows_down_past_a_size_is_not_asked_for_more() -> None:
    def seconds_of(tokens: float) -> float:
        return 0.05 + 0.00006 * tokens * (1 + (tokens / 8_000) ** 2)

    assert learnt(seconds_of) < 8_000
