"""What a job says of itself is what its results are, at every moment and whatever went wrong."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest
from sqlalchemy import text

from app.domain.jobs import JobState, Progress
from app.services.chunk_writes import ChunkWrites
from app.services.submission import JobRequest
from app.storage import lease_store, result_store
from app.storage.progress_store import ProgressStore
from tests.integration.services.test_execution import Killed
from tests.rig import MakeRig, Rig, Texts
from tests.scripted import Says, scripted, vectors
from tests.waiting import until

KNOWN = [f"known text {n}" for n in range(40)]
NEW = [f"new text {n}" for n in range(300)]
BAD = {17: "POISON one", 133: "POISON two", 211: "NAN text"}
BLANK = {5, 6, 250}
TEXTS = [*KNOWN, *("" if n in BLANK else BAD.get(n, one) for n, one in enumerate(NEW))]
UNCHANGED, EMPTY, FAILED = len(KNOWN), len(BLANK), len(BAD)


def at_odds(seed: int) -> Any:
    """A server that is out of sorts one time in four, refuses some texts and spoils one."""
    chance = random.Random(seed)

    def answer(body: Mapping[str, Any]) -> Says:
        if chance.random() < 0.25:
            return Says(chance.choice([429, 500, 503, 502]))
        if any("POISON" in one for one in body["input"]):
            return Says(400, {"error": {"message": "no"}})
        said = vectors(body)
        for at, one in enumerate(body["input"]):
            if "NAN" in one:
                said.body["data"][at]["embedding"] = [float("nan")] * 4
        return said

    return answer


class Looked:
    """Counts, and the results beneath them, of one moment each."""

    def __init__(self, one: Rig, job_id: int) -> None:
        self._one, self._job_id = one, job_id
        self.shares: list[float] = []
        self.wrong: list[tuple[Progress, Mapping[str, int]]] = []

    def look(self) -> Progress:
        with self._one.database.snapshot() as tx:
            progress = ProgressStore(tx).progress([self._job_id])[self._job_id]
            rows = tx.execute(_BY_STATUS, {"id": self._job_id})
            found = Counter({row.status: row.n for row in rows})
            items = tx.execute(_ITEMS, {"id": self._job_id}).scalar_one()
        told = (progress.done, progress.failed, progress.unchanged, progress.empty)
        there = (found.total() - found["failed"], found["failed"], found["unchanged"])
        if told != (*there, found["empty"]) or items != progress.total:
            self.wrong.append((progress, found))
        self.shares.append(progress.share)
        return progress


_BY_STATUS = text("SELECT status, count(*) AS n FROM results WHERE job_id = :id GROUP BY status")
_ITEMS = text("SELECT sum(items) FROM chunks WHERE job_id = :id")


def worked_off(make: MakeRig, most_s: float = 60.0) -> tuple[Looked, Rig, int]:
    """Two processes with three threads each, of which several die, on a server at odds; a third
    one looks all the while."""
    with scripted(vectors) as server:
        settings: dict[str, Any] = {
            "endpoints": [server.at()],
            "batch": {
                "chunk_items": 30,
                "retry_base_s": 0.01,
                "retry_max_s": 0.05,
                "max_attempts": 12,
                "crashes_before_split": 100,
            },
            "health": {"failures_to_open": 10_000},
        }
        rigs = make(**settings), make(declare=False, **settings)
        for n, each in enumerate(rigs):
            each.wiring.worker_name = f"process.{n}"
        one = rigs[0]
        one.work(one.submit(KNOWN, key="before").job.id)
        server.answer = at_odds(3)
        job_id = one.submit(TEXTS).job.id
        looked = Looked(one, job_id)
        for n, each in enumerate(rigs):
            mortal(each, random.Random(n))
        stop = threading.Event()

        def watch() -> None:
            while not stop.wait(0.01):
                looked.look()

        def work(each: Rig) -> None:
            until(lambda: stepped(each, job_id), most_s, "the job's end")

        with ThreadPoolExecutor(7) as pool:
            watching = pool.submit(watch)
            workers = [pool.submit(work, rigs[n % 2]) for n in range(6)]
            errors = [worker.exception() for worker in workers]
            stop.set()
            watching.result()
        assert errors == [None] * 6
    return looked, one, job_id


def mortal(one: Rig, chance: random.Random, deaths: int = 4) -> None:
    """Some calls end with the death of the worker, after the answer and before the checkpoint."""
    call, left = one.wiring.execution._call, [deaths]

    def deadly(*given: Any) -> Any:
        read = call(*given)
        if left[0] and chance.random() < 0.2:
            left[0] -= 1
            raise Killed
        return read

    one.wiring.execution._call = deadly  # type: ignore[method-assign]


def stepped(one: Rig, job_id: int) -> bool:
    try:
        one.wiring.execution.run(job_id)
    except Killed:
        one.wiring.rescue.replace(one.wiring.worker_name)
    one.wiring.completion.sweep()
    return one.job(job_id).state is JobState.COMPLETED


def test_counts_are_the_results_at_every_moment_of_a_bad_day(rig: MakeRig) -> None:
    looked, one, job_id = worked_off(rig)
    assert looked.wrong == []
    assert looked.shares == sorted(looked.shares)
    progress = looked.look()
    assert (progress.share, progress.retrying, progress.in_flight) == (1.0, 0, 0)
    assert (progress.unchanged, progress.empty, progress.failed) == (UNCHANGED, EMPTY, FAILED)
    assert progress.done == len(TEXTS) - FAILED
    codes = [code for (code,) in one.rows("SELECT code FROM results WHERE status = 'failed'")]
    assert codes.count("bad_request") == FAILED - 1  # The last one's code is of its last attempt.
    assert one.one("SELECT count(*) FROM embeddings") == len(TEXTS) - FAILED - EMPTY
    assert one.job(job_id).state is JobState.COMPLETED


def test_mutant_that_counts_what_was_there_already_is_seen(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer to a commit was lost: the checkpoint is made twice, and the results are there."""
    patiently = ChunkWrites.checkpoint

    def twice(self: ChunkWrites, *given: Any, **more: Any) -> None:
        patiently(self, *given, **more)
        patiently(self, *given, **more)

    monkeypatch.setattr(ChunkWrites, "checkpoint", twice)
    one = rig()
    looked = Looked(one, one.work(one.submit(NEW[:20], key="honest").job.id).id)
    looked.look()
    assert looked.wrong == []

    monkeypatch.setattr(result_store.ResultStore, "record", lambda *_: 1)
    mutant = Looked(one, one.work(one.submit(NEW[20:40], key="mutant").job.id).id)
    mutant.look()
    assert mutant.wrong


def test_what_failed_before_is_sent_again_by_another_job_and_nothing_else(rig: MakeRig) -> None:
    """A vector that is there is a result that is done; of a failure nothing is kept."""
    one = rig(batch={"max_attempts": 1})
    one.endpoint.order({"kind": "reject_text", "text": "text 13", "path": "embeddings"})
    first = one.work(one.submit(NEW[:30], key="first").job.id)
    assert (one.progress(first.id).done, one.progress(first.id).failed) == (29, 1)
    one.endpoint.calm()
    second = one.work(one.submit(NEW[:30], key="second").job.id)
    progress = one.progress(second.id)
    assert (progress.done, progress.unchanged, progress.failed) == (30, 29, 0)
    assert one.endpoint.ledger()["inputs"] == 1


def test_fields_that_are_not_embedded_may_change_without_a_call(rig: MakeRig) -> None:
    class Dated(Texts):
        day = 1

        def content_hash(self) -> bytes:
            return super().content_hash() + bytes([self.day])

        def rows(self) -> Any:
            for key, payload in super().rows():
                yield key, orjson.dumps({**orjson.loads(payload), "seen_at": f"day {self.day}"})

    one, source = rig(), Dated(NEW[:30])
    for source.day in (1, 2):
        params = {"model": "fake-embed", "collection": "docs"}
        request = JobRequest("embed", params, key=f"night {source.day}")
        job = one.work(one.wiring.submission.submit(request, source).job.id)
    assert one.progress(job.id).unchanged == 30
    assert one.endpoint.ledger()["inputs"] == 30


def test_mutant_whose_retries_are_counted_twice_is_seen(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant = lease_store._SHRINK.text.replace("items - :count", "items")
    monkeypatch.setattr(lease_store, "_SHRINK", text(mutant))
    one = rig()
    one.endpoint.order({"kind": "status", "status": 500, "remaining": 2})  # The probe's, too.
    job_id = one.submit(NEW[:50]).job.id
    one.wiring.execution.run(job_id)
    looked = Looked(one, job_id)
    looked.look()
    assert looked.wrong


def test_the_second_night_has_chunks_of_twenty_seconds(rig: MakeRig) -> None:
    one = rig(pools=[{"name": "main", "total": 3, "batch_max": 2}])
    first = one.submit([f"text {n}" for n in range(1000)], key="first").job
    one.work(first.id)
    one.execute("UPDATE batch_calls SET seconds = items / 10.0")
    second = one.submit([f"other {n}" for n in range(4000)], key="second").job
    sizes = "SELECT DISTINCT items FROM chunks WHERE job_id = :id"

    assert one.rows(sizes, id=first.id) == [(50,)]
    assert one.rows(sizes, id=second.id) == [(200,)]
