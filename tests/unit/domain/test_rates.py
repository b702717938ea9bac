"""Rate budgets: never above in any window, people first, and no wait longer than it must be."""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.rates import (
    KEPT_SHARE,
    NOTHING,
    WINDOW_S,
    Budget,
    Cost,
    Reserved,
    Used,
    can_never_fit,
    fits,
    kept,
    most_tokens_a_call,
    wait_s,
)

THOUSAND = Budget(tokens=1000)


def test_people_may_use_all_and_batch_leaves_them_a_tenth() -> None:
    used = Used(batch=Cost(tokens=500, requests=5))
    assert fits(THOUSAND, used, Cost(500), interactive=True)
    assert not fits(THOUSAND, used, Cost(501), interactive=True)
    assert fits(THOUSAND, used, Cost(400), interactive=False)
    assert not fits(THOUSAND, used, Cost(401), interactive=False)


def test_batch_leaves_people_what_they_used_a_minute_ago_and_a_tenth_more() -> None:
    used = Used(people_before=Cost(tokens=600, requests=3))
    assert kept(1000, 0, 600) == 660
    assert fits(THOUSAND, used, Cost(340), interactive=False)
    assert not fits(THOUSAND, used, Cost(341), interactive=False)


def test_what_people_use_now_is_part_of_what_they_are_kept() -> None:
    used = Used(people=Cost(tokens=600, requests=3))
    assert fits(THOUSAND, used, Cost(340), interactive=False)
    assert not fits(THOUSAND, used, Cost(341), interactive=False)


def test_requests_are_counted_beside_tokens() -> None:
    budget = Budget(requests=3, tokens=1000)
    used = Used(batch=Cost(tokens=10, requests=3))
    assert not fits(budget, used, Cost(10), interactive=True)
    assert not fits(Budget(requests=3), used, Cost(), interactive=True)
    assert fits(Budget(), used, Cost(10**9), interactive=False)


def test_what_is_larger_than_batchs_share_goes_only_into_an_empty_minute() -> None:
    assert fits(THOUSAND, Used(), Cost(950), interactive=False)
    assert not fits(THOUSAND, Used(people=Cost(1)), Cost(950), interactive=False)
    assert not fits(THOUSAND, Used(people_before=Cost(1)), Cost(950), interactive=False)


def test_only_what_is_more_than_the_whole_budget_can_never_go() -> None:
    assert not can_never_fit(THOUSAND, Cost(1000))
    assert can_never_fit(THOUSAND, Cost(1001))
    assert not can_never_fit(Budget(requests=1), Cost(10**9))


def test_the_wait_ends_when_enough_has_left_the_window() -> None:
    log = [
        Reserved(50.0, Cost(400), interactive=False),
        Reserved(10.0, Cost(300), interactive=False),
        Reserved(30.0, Cost(300), interactive=True),
    ]
    used = Used(batch=Cost(700, 2), people=Cost(300, 1))
    assert wait_s(log, THOUSAND, used, Cost(200), interactive=True) == 10.0
    assert wait_s(log, THOUSAND, used, Cost(500), interactive=True) == 30.0
    assert wait_s(log, THOUSAND, used, Cost(1000), interactive=True) == 50.0


@pytest.mark.parametrize(
    ("budget", "most", "wanted"),
    [
        (Budget(), 16_384, 16_384),
        (THOUSAND, 16_384, 250),
        (THOUSAND, 100, 100),
        (Budget(requests=2, tokens=1000), 16_384, 500),
        (Budget(requests=1, tokens=1000), 16_384, 900),
        (Budget(tokens=1), 16_384, 1),
    ],
)
def test_a_micro_batch_spends_no_budget_in_one_go(budget: Budget, most: int, wanted: int) -> None:
    assert most_tokens_a_call(budget, most) == wanted


Calls = list[tuple[float, int, bool, float, float, float]]
CALLS: st.SearchStrategy[Calls] = st.lists(
    st.tuples(
        st.floats(0, 30),  # seconds after the one before it
        st.integers(1, 400),  # tokens
        st.booleans(),  # a person's
        st.floats(0, 20),  # until it arrives
        st.floats(0, 20),  # until it is over
        st.floats(0, 1),  # the share of its tokens that it came to
    ),
    min_size=1,
    max_size=60,
)


def counted_at_the_endpoint(calls: Calls, *, early: bool) -> list[tuple[float, int]]:
    """(when, tokens) of the calls that were let through, as the endpoint counts them.

    `early`: the mutant whose reservation counts from when it is made, not until its call is over.
    """
    now_s, seen = 0.0, []
    log: list[tuple[float, float, int, bool]] = []  # until when it may arrive, over, tokens, person
    for after_s, tokens, interactive, arrives_s, takes_s, share in calls:
        now_s += after_s
        window = [
            (tokens_, person)
            for made_s, over_s, tokens_, person in log
            if (made_s if early else over_s) > now_s - WINDOW_S
        ]
        used = Used(
            batch=sum((Cost(t) for t, person in window if not person), NOTHING),
            people=sum((Cost(t) for t, person in window if person), NOTHING),
        )
        if not fits(THOUSAND, used, Cost(tokens), interactive=interactive):
            continue
        actual = max(1, round(tokens * share))
        log.append((now_s, now_s + arrives_s + takes_s, actual, interactive))
        heapq.heappush(seen, (now_s + arrives_s, actual))
    return sorted(seen)


def most_in_a_window(seen: list[tuple[float, int]]) -> int:
    return max(
        (sum(t for at, t in seen if start <= at < start + WINDOW_S) for start, _ in seen),
        default=0,
    )


@settings(max_examples=200, deadline=None)
@given(CALLS)
def test_however_late_calls_arrive_no_window_of_the_endpoint_is_above_the_budget(
    calls: Calls,
) -> None:
    assert most_in_a_window(counted_at_the_endpoint(calls, early=False)) <= 1000


def test_mutant_that_counts_from_the_reservation_passes_the_budget() -> None:
    slow, quick = (0.0, 400, True, 20.0, 0.0, 1.0), (0.0, 400, True, 0.0, 0.0, 1.0)
    late: Calls = [slow, slow, (60.0, *quick[1:]), quick]
    assert most_in_a_window(counted_at_the_endpoint(late, early=True)) == 1600
    assert most_in_a_window(counted_at_the_endpoint(late, early=False)) <= 1000


def test_the_kept_share_never_keeps_a_small_budget_to_itself() -> None:
    assert kept(5, 0, 0) == 0
    assert kept(10, 0, 0) == int(10 * KEPT_SHARE)
    assert kept(10, 9, 0) == 10
