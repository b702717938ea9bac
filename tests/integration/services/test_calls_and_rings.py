"""What is held while a call runs, what a spent quota costs, and how often workers are rung."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from app.domain.jobs import JobState
from app.services.submission import JobRequest
from tests.rig import MakeRig, Rig, Texts
from tests.scripted import Says, scripted, vectors

OPEN = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND state LIKE 'idle in transaction%' AND xact_start < :since
"""


class Bell:
    """Writes down what is rung. `waiting` rings stand at the broker already."""

    def __init__(self, waiting: int = 0) -> None:
        self._waiting = waiting
        self.rung: list[int] = []

    def waiting(self) -> int:
        return self._waiting

    def ring(self, rings: Sequence[tuple[int, str]]) -> int:
        self.rung += [job_id for job_id, _ in rings]
        return len(rings)


def open_during_a_call(make: MakeRig, change: Callable[[Rig], object] = lambda _: None) -> int:
    """Transactions from before a call that still stand open in the middle of it. A thread that the
    machine lets wait ends its own at some time; what is held for the call stays to the last look.
    """
    seen: list[int] = []

    def answer(body: Mapping[str, Any]) -> Says:
        since = one.one("SELECT clock_timestamp()")
        while len(seen) < 20 and (not seen or seen[-1] > 0):
            seen.append(one.one(OPEN, since=since))
            time.sleep(0.05)
        return vectors(body)

    with scripted(answer) as server:
        one = make(endpoints=[server.at()])
        change(one)
        job_id = one.submit(["a text"]).job.id
        assert one.wiring.execution.run(job_id).done == 1
    return seen[-1]


def test_no_transaction_is_open_during_a_call(rig: MakeRig) -> None:
    assert open_during_a_call(rig) == 0


def holds_one(one: Rig) -> None:
    call = one.wiring.execution._call

    def holding(*given: object) -> object:
        with one.database.transaction() as tx:
            tx.exec_driver_sql("SELECT 1")
            return call(*given)  # type: ignore[arg-type]

    one.wiring.execution._call = holding  # type: ignore[method-assign, assignment]


def test_mutant_that_holds_one_is_seen(rig: MakeRig) -> None:
    assert open_during_a_call(rig, holds_one) == 1


def test_a_spent_quota_pauses_the_job_after_one_request(rig: MakeRig) -> None:
    one = rig()
    one.endpoint.order({"kind": "status", "status": 429, "code": "insufficient_quota"})
    job = one.work(one.submit([f"text {n}" for n in range(50)]).job.id)

    assert job.state is JobState.PAUSED
    assert (job.reason or "").startswith("quota_exhausted")
    assert one.endpoint.ledger()["requests"] == 1


@pytest.mark.parametrize(("waiting", "rung"), [(0, 5), (3, 2), (5, 0), (9, 0)])
def test_never_more_rings_than_free_places(rig: MakeRig, waiting: int, rung: int) -> None:
    """A job of 40 chunks and five places; a ring that waits at the broker has its place."""
    one = rig()
    one.submit([f"text {n}" for n in range(2000)])
    one.limit(5)
    bell = Bell(waiting)
    one.wiring.ringing._doorbell = bell
    assert one.wiring.ringing.ring_all() == len(bell.rung) == rung


def test_who_has_used_least_for_its_weight_is_rung_first(rig: MakeRig) -> None:
    """One place, weights of three to one: thirty seconds of the first are ten of the second."""
    one = rig()
    heavy, light = (
        one.submit([f"text {n}" for n in range(200)], key=key, weight=weight).job.id
        for key, weight in (("heavy", 3.0), ("light", 1.0))
    )
    one.limit(1)

    def called(job_id: int, seconds: float, ago_s: float) -> None:
        one.execute(
            "INSERT INTO batch_calls (job_id, pool, endpoint, ended_at, seconds, items)"
            " VALUES (:id, 'main', 'sim', now() - make_interval(secs => :ago), :seconds, 1)",
            id=job_id,
            seconds=seconds,
            ago=ago_s,
        )

    def rung() -> list[int]:
        one.wiring.ringing._doorbell = bell = Bell()
        one.wiring.ringing.ring_all()
        return bell.rung

    called(heavy, 30, 5)
    called(light, 5, 5)
    assert rung() == [light]
    called(light, 10, 5)
    assert rung() == [heavy]
    called(heavy, 9000, 310)  # That is long ago.
    assert rung() == [heavy]


def test_nobody_is_rung_for_a_job_that_is_being_loaded(rig: MakeRig) -> None:
    """Ringing looks at each row that is given away, as a tick between two of them would."""
    one, other = rig(batch={"chunk_items": 10}), rig(declare=False)
    bell = Bell()
    other.wiring.ringing._doorbell = bell

    class Watched(Texts):
        def rows(self) -> Iterator[tuple[str, bytes]]:
            for row in super().rows():
                other.wiring.ringing.ring_all()
                yield row

    request = JobRequest("embed", {"model": "fake-embed", "collection": "docs"}, key="job")
    job = one.wiring.submission.submit(request, Watched([f"text {n}" for n in range(60)])).job
    assert bell.rung == []
    other.wiring.ringing.ring_all()
    assert set(bell.rung) == {job.id}
