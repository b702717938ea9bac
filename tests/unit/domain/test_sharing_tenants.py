"""Tenants share alike, whatever one of them submits; jobs share by weight within their tenant."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from heapq import heappop, heappush
from math import exp, inf
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.sharing import Candidate, shared, uneven
from tests.unit.domain.test_sharing import a_job


def by_tenant(count: int, *jobs: Candidate) -> Counter[str]:
    return Counter(job.tenant for job in shared(count, jobs))


def test_a_tenant_with_many_jobs_gets_no_more_than_one_with_few() -> None:
    many = [a_job(n, tenant="a", priority=9, weight=50.0) for n in range(20)]
    assert by_tenant(8, *many, a_job(99, tenant="b")) == {"a": 4, "b": 4}


def test_what_the_other_jobs_of_a_tenant_hold_counts_for_it() -> None:
    """The tenant holds six places by jobs that have nothing more to claim."""
    assert by_tenant(4, a_job(1, tenant="a", tenant_in_flight=6), a_job(2, tenant="b")) == {"b": 4}


def test_places_that_a_tenant_cannot_use_go_to_the_others() -> None:
    assert by_tenant(8, a_job(1, tenant="a", ready=1), a_job(2, tenant="b")) == {"a": 1, "b": 7}


def test_priority_orders_jobs_of_one_tenant_and_not_tenants() -> None:
    first, second = a_job(1, tenant="a"), a_job(2, tenant="a", priority=5)
    other = a_job(3, tenant="b", priority=-7)
    assert Counter(job.job_id for job in shared(6, [first, second, other])) == {2: 3, 3: 3}


def served_over_time(places: int, jobs: list[Candidate], turns: int) -> Counter[int]:
    """How often each job was served while places came free one after the other, oldest first."""
    last: dict[int, int] = {}
    running: list[int] = []
    served: Counter[int] = Counter()
    for now in range(turns):
        held = Counter(running)
        by = Counter(jobs[n].tenant for n in running)
        tenant_last = {
            t: max(
                (last[j.job_id] for j in jobs if j.tenant == t and j.job_id in last), default=-inf
            )
            for t in {job.tenant for job in jobs}
        }
        asking = [
            replace(
                job,
                in_flight=held[job.job_id],
                tenant_in_flight=by[job.tenant],
                waited_s=now - last.get(job.job_id, -inf),
                tenant_waited_s=now - tenant_last[job.tenant],
            )
            for job in jobs
        ]
        for chosen in shared(places - len(running), asking):
            running.append(chosen.job_id)
            served[chosen.job_id] += 1
            last[chosen.job_id] = now
        running.pop(0)
    return served


@settings(max_examples=80)
@given(st.integers(1, 7), st.lists(st.sampled_from("abc"), min_size=1, max_size=9), st.data())
def test_nobody_starves_and_tenants_come_out_alike(
    places: int, tenants: list[str], data: st.DataObject
) -> None:
    """Every job always has work; weights are what they may be, even with a single place."""
    weights = [data.draw(st.floats(0.5, 4)) for _ in tenants]
    jobs = [a_job(n, tenant=t, weight=weights[n]) for n, t in enumerate(tenants)]

    served = served_over_time(places, jobs, 300)

    by: Counter[str] = Counter()
    for job in jobs:
        by[job.tenant] += served[job.job_id]
    assert min(served[job.job_id] for job in jobs) > 0
    assert max(by.values()) - min(by.values()) <= 2 * places + 2


@pytest.mark.parametrize(("places", "least", "most"), [(1, 2, 4), (4, 3, 3), (8, 3, 3), (2, 1, 3)])
def test_over_time_service_is_in_proportion_to_weight(
    places: int, least: float, most: float
) -> None:
    """Three to one, as near as whole places come to it; by turns where there is one place."""
    served = served_over_time(places, [a_job(0, weight=3.0), a_job(1, weight=1.0)], 400)
    assert least * 0.97 <= served[0] / served[1] <= most * 1.03


@given(st.lists(st.integers(1, 5), min_size=2, max_size=4))
def test_within_a_tenant_places_are_in_proportion_to_weight(weights: list[int]) -> None:
    """With four rounds of places, each job gets four times its weight, give or take one."""
    jobs = [a_job(n, weight=float(weight), tenant="a") for n, weight in enumerate(weights)]
    got = Counter(job.job_id for job in shared(4 * sum(weights), jobs))
    assert all(abs(got[n] - 4 * weight) <= 1 for n, weight in enumerate(weights))


def shares_over_time(places: int, weights: list[float], *, looks: bool = True) -> list[float]:
    """What each job had of the places' time, chunks of about ten seconds, as parts of the weights.

    `looks` False is the mutant: nobody looks at what was used.
    """
    chance, fades_s = Random(1), 100.0
    held, used, took = ([0.0] * len(weights) for _ in range(3))
    served = [-inf] * len(weights)
    ends: list[tuple[float, int, float]] = []
    now_s = 0.0
    while now_s < 3000:
        while len(ends) < places:
            jobs = [
                a_job(
                    n,
                    weight=weight,
                    in_flight=int(held[n]),
                    waited_s=now_s - served[n],
                    used_s=used[n] if looks else None,
                )
                for n, weight in enumerate(weights)
            ]
            (job,) = shared(1, jobs)
            seconds = chance.uniform(7, 13)
            heappush(ends, (now_s + seconds, job.job_id, seconds))
            held[job.job_id], served[job.job_id] = held[job.job_id] + 1, now_s
        before_s = now_s
        now_s, ended, seconds = heappop(ends)
        used = [one * exp((before_s - now_s) / fades_s) for one in used]
        used[ended], took[ended] = used[ended] + seconds, took[ended] + seconds
        held[ended] -= 1
    return [one * sum(weights) / sum(took) for one in took]


@pytest.mark.parametrize(
    ("places", "weights"),
    [(2, [3.0, 1.0]), (1, [3.0, 1.0]), (3, [3.0, 1.0]), (2, [5.0, 1.0]), (4, [3.0, 2.0, 1.0])],
)
def test_few_places_come_out_by_weight_over_time(places: int, weights: list[float]) -> None:
    got = shares_over_time(places, weights)
    assert got == pytest.approx(weights, rel=0.15, abs=0.1)


def test_mutant_that_does_not_look_at_what_was_used_shares_two_places_alike() -> None:
    assert shares_over_time(2, [3.0, 1.0], looks=False) == pytest.approx([2, 2], abs=0.1)


def test_a_newcomer_takes_its_part_and_does_not_catch_up() -> None:
    """One place: whoever has used least, and then by turns. Without a past it is like the least."""
    old = a_job(1, weight=3.0, used_s=30.0, waited_s=10.0)
    other = a_job(2, used_s=20.0, waited_s=60.0)
    for waited_s, first in ((inf, 3), (20.0, 1), (40.0, 3)):
        new = a_job(3, waited_s=waited_s)
        assert [job.job_id for job in shared(1, [old, other, new])] == [first]


def test_only_unlike_weights_of_one_tenant_and_priority_need_a_look() -> None:
    assert not uneven([a_job(1), a_job(2), a_job(3, weight=2.0, tenant="b")])
    assert not uneven([a_job(1), a_job(2, weight=2.0, priority=1)])
    assert uneven([a_job(1), a_job(2, weight=2.0)])
