"""Whose a failed call is: by what others met at the same endpoint."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.blame import (
    WINDOW_S,
    Blame,
    Evidence,
    Input,
    Trial,
    asks,
    blamed,
    evidence,
)
from app.domain.health import FAULTS

NOW = 1000.0


def an(*seqs: int) -> Input:
    return frozenset((1, seq) for seq in seqs)


def through(*seqs: int, at: float = NOW - 1) -> Trial:
    return Trial(at, an(*seqs))


def failed(*seqs: int, blame: Blame = Blame.ENDPOINT, at: float = NOW - 1) -> Trial:
    return Trial(at, an(*seqs), blame)


def known(*trials: Trial, mine: Input | None = None, code: str = "connection") -> Evidence:
    return evidence(code, mine or an(7), trials, NOW)


def after_probe(before: Evidence, *, answers: bool) -> Blame:
    assert asks(before)
    return blamed(replace(before, answers=answers))


@pytest.mark.parametrize("code", sorted(FAULTS))
def test_alone_the_endpoints_answer_to_a_cheap_request_tells(code: str) -> None:
    assert blamed(known(code=code)) is Blame.ENDPOINT
    assert after_probe(known(code=code), answers=True) is Blame.INPUT
    assert after_probe(known(code=code), answers=False) is Blame.ENDPOINT


def test_others_that_fail_there_too_make_it_the_endpoints_without_a_question() -> None:
    both = known(failed(1), *[through(n) for n in range(10, 14)])
    assert not asks(both)
    assert blamed(replace(both, answers=True)) is Blame.ENDPOINT
    assert asks(known(failed(1), *[through(n) for n in range(10, 15)]))


def test_whom_others_overtook_since_it_failed_before_needs_no_question() -> None:
    overtaken = known(failed(7, at=NOW - 3), through(8, at=NOW - 2))
    assert not asks(overtaken)
    assert blamed(overtaken) is Blame.INPUT
    assert asks(known(through(8, at=NOW - 3), failed(7, at=NOW - 2)))


def test_an_endpoint_that_says_when_to_come_back_is_not_asked_before() -> None:
    told = evidence("overloaded", an(7), [], NOW, told_to_wait=True)
    assert not asks(told)
    assert blamed(told) is Blame.ENDPOINT
    again = evidence("overloaded", an(7), [failed(7, at=NOW - 99)], NOW, told_to_wait=True)
    assert after_probe(again, answers=True) is Blame.INPUT


@pytest.mark.parametrize("code", ["rate_limited", "auth", "quota_exhausted", "abandoned"])
def test_what_is_no_fault_is_nobodys_input(code: str) -> None:
    assert blamed(known(failed(7), through(8), code=code)) is Blame.ENDPOINT
    assert not asks(known(code=code))


def test_two_poisonous_inputs_do_not_excuse_each_other() -> None:
    assert asks(known(failed(1, blame=Blame.INPUT)))
    turned = known(failed(1), failed(1, blame=Blame.INPUT))
    assert turned.failing == 0


def test_what_was_long_ago_counts_no_more() -> None:
    assert known(failed(1, at=NOW - WINDOW_S - 1)) == Evidence("connection")


def test_the_same_items_in_another_batch_are_no_others() -> None:
    assert known(failed(7, 8), failed(6, 7), mine=an(7)).failing == 0


def test_a_micro_batch_and_its_halves_are_one_suspect() -> None:
    halved = [failed(*range(1, 1 + n), blame=Blame.INPUT) for n in (8, 4, 2, 1)]
    assert known(*halved, mine=an(99)).suspects == 1


def test_where_nothing_but_small_requests_gets_through_it_is_the_endpoint_after_all() -> None:
    all_fail = [failed(n, blame=Blame.INPUT) for n in range(20, 31)]
    probes = [Trial(NOW - 1, frozenset()) for _ in all_fail]
    assert not asks(known(*all_fail, *probes))
    assert asks(known(*all_fail[1:], *probes))
    assert asks(known(*all_fail, *probes, through(99)))


@given(
    st.lists(
        st.builds(
            Trial,
            st.floats(NOW - 40, NOW),
            st.frozensets(st.tuples(st.just(1), st.integers(1, 9)), max_size=3),
            st.sampled_from([None, *Blame]),
        ),
        max_size=30,
    ),
    st.booleans(),
)
def test_nothing_is_its_own_fault_unless_somebody_got_through(
    trials: list[Trial], answers: bool
) -> None:
    found = evidence("connection", an(1), sorted(trials, key=lambda one: one.at_s), NOW)
    if blamed(replace(found, answers=answers)) is Blame.INPUT:
        assert answers or found.through > 0
