"""Who gets the next place."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from app.domain.sharing import Candidate, shared

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def a_job(job_id: int, **values: object) -> Candidate:
    given: dict[str, object] = {
        "kind": "embed",
        "priority": 0,
        "weight": 1.0,
        "max_in_flight": None,
        "deadline_at": None,
        "ready": 100,
        "in_flight": 0,
        **values,
    }
    return Candidate(job_id=job_id, **given)  # type: ignore[arg-type]


def places(count: int, *jobs: Candidate) -> Counter[int]:
    return Counter(job.job_id for job in shared(count, jobs))


def test_equal_jobs_share_equally() -> None:
    assert places(6, a_job(1), a_job(2), a_job(3)) == {1: 2, 2: 2, 3: 2}


def test_places_grow_in_proportion_to_weight() -> None:
    assert places(8, a_job(1, weight=3.0), a_job(2)) == {1: 6, 2: 2}


def test_what_a_job_has_in_flight_counts() -> None:
    assert places(4, a_job(1, in_flight=4), a_job(2)) == {2: 4}


def test_a_higher_priority_goes_first_altogether() -> None:
    assert places(4, a_job(1), a_job(2, priority=5)) == {2: 4}


def test_a_cap_of_a_job_holds_and_the_rest_goes_to_others() -> None:
    assert places(6, a_job(1, max_in_flight=3, in_flight=2), a_job(2)) == {1: 1, 2: 5}


def test_an_earlier_deadline_breaks_a_tie() -> None:
    later, sooner = NOON.replace(hour=20), NOON.replace(hour=13)
    assert shared(1, [a_job(1, deadline_at=later), a_job(2, deadline_at=sooner)])[0].job_id == 2


@given(
    st.integers(0, 50),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9), st.floats(0.1, 10)), max_size=8),
)
def test_never_more_than_the_places_or_the_chunks(
    count: int, jobs: list[tuple[int, int, float]]
) -> None:
    given_jobs = [
        a_job(n, ready=ready, priority=priority, weight=weight)
        for n, (ready, priority, weight) in enumerate(jobs)
    ]
    got = places(count, *given_jobs)
    assert sum(got.values()) == min(count, sum(ready for ready, _, _ in jobs))
    assert all(got[job.job_id] <= job.ready for job in given_jobs)
