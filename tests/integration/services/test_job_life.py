"""What holds a job back, who is served next, which failures are retried, and what is kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.domain.jobs import JobState
from app.domain.waiting import Hold
from app.domain.windows import Window
from app.errors import NotFound, StateConflict
from app.services.retention import Periods, Retention
from app.storage.turn_store import TurnStore
from tests.rig import MakeRig, Rig


class Bell:
    """Rings that are only written down."""

    def __init__(self) -> None:
        self.rung: list[int] = []

    def waiting(self) -> int:
        return 0

    def ring(self, rings: Sequence[tuple[int, str]]) -> int:
        self.rung += [job_id for job_id, _ in rings]
        return len(rings)


def rung(rig: Rig) -> Counter[int]:
    """For which jobs a tick would ring now."""
    bell = Bell()
    rig.wiring.ringing._doorbell = bell
    rig.wiring.ringing.ring_all()
    return Counter(bell.rung)


def texts(count: int, word: str = "text") -> list[str]:
    return [f"{word} number {n}" for n in range(count)]


def test_a_job_comes_after_another_has_completed(rig: MakeRig) -> None:
    one = rig()
    first = one.submit(texts(60), key="first").job
    second = one.submit(texts(60, "other"), key="second", after=("first",)).job

    assert second.after == (first.id,)
    assert set(rung(one)) == {first.id}
    assert one.wiring.execution.run(second.id).ended == "after_jobs"
    assert one.wiring.inspection.job("second").waits == "waits for job first"
    assert [(job.key, why.code) for job, why in one.wiring.inspection.held_back("main")] == [
        ("first", Hold.RINGING),
        ("second", Hold.AFTER_JOBS),
    ]

    assert one.work(first.id).state is JobState.COMPLETED
    assert set(rung(one)) == {second.id}
    assert one.work(second.id).state is JobState.COMPLETED
    assert one.wiring.inspection.job("second").waits is None


def test_an_empty_job_does_not_overtake_the_one_it_comes_after(rig: MakeRig) -> None:
    one = rig()
    first = one.submit(texts(20), key="first").job
    middle = one.submit([], key="middle", after=("first",)).job
    one.wiring.completion.sweep()
    assert one.job(middle.id).state is JobState.READY

    one.work(first.id)
    one.wiring.completion.sweep()
    assert one.job(middle.id).state is JobState.COMPLETED


def test_failed_items_do_not_stop_the_job_that_comes_after(rig: MakeRig) -> None:
    one = rig()
    first = one.submit(["", "x", *texts(3)], key="first").job
    second = one.submit(texts(3, "other"), key="second", after=(str(first.id),)).job
    one.execute("UPDATE results SET status = 'failed'")
    one.work(first.id)
    assert one.work(second.id).state is JobState.COMPLETED


def test_what_comes_after_a_cancelled_job_is_paused_and_says_so(rig: MakeRig) -> None:
    one = rig()
    one.submit(texts(20), key="first")
    second = one.submit(texts(20, "other"), key="second", after=("first",)).job
    one.wiring.steering.cancel("first")
    one.wiring.completion.sweep()

    paused = one.job(second.id)
    assert paused.state is JobState.PAUSED
    assert "job first, which is cancelled; resume it" in (paused.reason or "")

    one.wiring.steering.resume("second")
    one.wiring.completion.sweep()
    assert one.work(second.id).state is JobState.COMPLETED


def test_a_job_cannot_come_after_one_that_is_not_there(rig: MakeRig) -> None:
    with pytest.raises(NotFound, match="nothing-like-it"):
        rig().submit(texts(3), after=("nothing-like-it",))


def window(opens_in: timedelta, lasts: timedelta) -> dict[str, Any]:
    start = datetime.now(UTC) + opens_in
    return Window(start.time(), (start + lasts).time(), "UTC").to_json()


def test_a_job_is_claimed_in_its_hours_only(rig: MakeRig) -> None:
    one = rig()
    closed = window(timedelta(hours=3), timedelta(hours=2))
    job = one.submit(texts(60), window=closed).job

    assert not rung(one)
    assert one.wiring.execution.run(job.id).ended == "outside_window"
    opens = closed["from"]
    waits = one.wiring.inspection.job("job").waits
    assert waits
    assert waits.startswith(f"outside its window until {opens} UTC")

    one.execute(
        'UPDATE jobs SET "window" = CAST(:w AS jsonb)',
        w=json.dumps(window(timedelta(hours=-3), timedelta(hours=5))),
    )
    assert set(rung(one)) == {job.id}
    assert one.work(job.id).state is JobState.COMPLETED


def test_a_chunk_is_handed_back_between_micro_batches_when_the_window_closes(
    rig: MakeRig,
) -> None:
    one = rig()
    job = one.submit(texts(50), window=window(timedelta(hours=-1), timedelta(hours=2))).job
    closed = json.dumps(window(timedelta(hours=3), timedelta(hours=2)))
    real = one.wiring.execution._writes.checkpoint

    def checkpoint(*given: Any, **more: Any) -> None:
        real(*given, **more)
        one.execute('UPDATE jobs SET "window" = CAST(:w AS jsonb)', w=closed)

    one.wiring.execution._writes.checkpoint = checkpoint  # type: ignore[method-assign]
    report = one.wiring.execution.run(job.id)

    assert (report.ended, report.done) == ("outside_window", 10)
    assert one.rows("SELECT state, attempt, crashes FROM chunks") == [("ready", 0, 0)]


def test_a_deadline_asks_for_no_place_while_its_job_is_held_back(rig: MakeRig) -> None:
    one = rig()
    soon = datetime.now(UTC) + timedelta(hours=1)
    one.submit(texts(60), key="first", deadline_at=soon)
    one.submit(texts(60, "b"), key="second", deadline_at=soon, after=("first",))
    closed = window(timedelta(hours=3), timedelta(hours=2))
    one.submit(texts(60, "c"), key="third", deadline_at=soon, window=closed)
    with one.database.transaction() as tx:
        assert len(TurnStore(tx).due("main")) == 1


def test_tenants_share_the_places_whatever_one_of_them_submits(rig: MakeRig) -> None:
    one = rig(batch={"chunk_items": 1})
    for n in range(4):
        one.submit(texts(40, f"a{n}"), key=f"a{n}", tenant="a", priority=5)
    other = one.submit(texts(40, "b"), key="b", tenant="b").job
    one.limit(8)

    rings = rung(one)
    assert sum(rings.values()) == 8
    assert rings[other.id] == 4


def test_with_one_place_jobs_take_turns(rig: MakeRig) -> None:
    one = rig(batch={"chunk_items": 10})
    jobs = [one.submit(texts(60, w), key=w).job.id for w in ("a", "b")]
    one.limit(1)
    order = []
    for _ in range(6):
        (chosen,) = rung(one)
        order.append(chosen)
        one.wiring.execution.run(chosen)
    assert order == jobs * 3


def test_only_failures_of_the_named_codes_are_tried_again(rig: MakeRig) -> None:
    one = rig()
    job = one.submit(texts(60)).job
    one.work(job.id)
    one.execute(
        "UPDATE results SET status = 'failed', code = CASE WHEN seq <= 20 THEN 'rate_limited'"
        " WHEN seq <= 30 THEN 'timeout' ELSE 'too_long' END"
    )
    one.execute("UPDATE chunks SET failed = ok, ok = 0")

    assert one.wiring.steering.retry("job", ["rate_limited", "timeout"])[1] == 30
    assert one.progress(job.id).failed == 30
    after = one.work(job.id)
    assert (after.state, one.progress(job.id).failed) == (JobState.COMPLETED, 30)
    assert one.wiring.inspection.job("job").failures == {"too_long": 30}


def test_items_and_results_of_old_jobs_go_while_counts_and_vectors_stay(rig: MakeRig) -> None:
    one = rig()
    old, young = (one.submit(texts(120, w), key=w, collection=w).job.id for w in ("old", "young"))
    for job_id in (old, young):
        one.work(job_id)
    one.execute("UPDATE jobs SET finished_at = now() - interval '31 days' WHERE id = :i", i=old)
    day_s = 86_400.0

    def prune() -> int:
        return Retention(one.database, Periods(day_s, day_s, day_s, 30 * day_s, day_s)).prune()

    assert prune() == 120
    assert prune() == 0
    kept = "SELECT count(*) FROM {} WHERE job_id = :i"
    for table, left in (("items", 0), ("results", 0), ("chunks", 3)):
        assert one.one(kept.format(table), i=old) == left
    assert one.one(kept.format("items"), i=young) == 120
    assert one.progress(old).done == 120
    assert one.one("SELECT count(*) FROM embeddings") == 240
    hits = one.wiring.searching.search("old", "old number 7", 1)
    assert (hits[0].key, hits[0].text) == ("k7", None)
    with pytest.raises(StateConflict, match="keep_jobs_days"):
        one.wiring.steering.retry("old")
