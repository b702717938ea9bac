"""A provider that is dead costs the jobs of its own pool, and nobody else anything."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from app.domain.jobs import JobState
from app.services.submission import JobRequest
from app.storage.pool_store import PoolSeen, PoolStore
from app.worker.batch_tasks import _NOTHING_DONE
from tests.rig import MakeRig, Rig, Texts
from tests.scripted import Answer, Says, Scripted, scripted, vectors
from tests.waiting import until

PLACES, ITEMS = 3, 120


class Bell:
    """A broker with one queue, as batch workers have it."""

    def __init__(self) -> None:
        self.rings: queue.Queue[int | None] = queue.Queue()

    def waiting(self) -> int:
        return self.rings.qsize()

    def ring(self, rings: Sequence[tuple[int, str]]) -> int:
        for job_id, _ in rings:
            self.rings.put(job_id)
        return len(rings)


@contextmanager
def working(one: Rig) -> Iterator[None]:
    """A batch worker with a thread for each place of all pools, and the tick that rings."""
    bell, stop = Bell(), threading.Event()
    one.wiring.ringing._doorbell = bell

    def work() -> None:
        while (job_id := bell.rings.get()) is not None:
            report = one.wiring.execution.run(job_id)
            if report.ended not in _NOTHING_DONE:
                one.wiring.ringing.ring_all()
                one.wiring.completion.sweep()

    def tick() -> None:
        while not stop.wait(0.1):
            one.wiring.ringing.ring_all()

    threads = [threading.Thread(target=work) for _ in range(2 * PLACES)]
    threads.append(threading.Thread(target=tick))
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        one.wiring.leases.stopping.set()
        for _ in threads:
            bell.rings.put(None)
        for thread in threads:
            thread.join(60)


def two_pools(make: MakeRig, dead: Scripted) -> Rig:
    """The pool main at the dead endpoint, the pool other at the simulated one."""
    pool = {"total": PLACES + 1, "batch_max": PLACES}
    live = make().endpoint
    one = make(
        pools=[{"name": "main", **pool}, {"name": "other", **pool}],
        endpoints=[
            dead.at("dead", models=["dead-embed"]),
            {"name": "live", "base_url": live.url, "models": ["fake-embed"], "pool": "other"},
        ],
        batch={"chunk_items": 20, "micro_batch_items": 10},
    )
    one.limit(PLACES)
    return one


def submit(one: Rig, model: str, word: str = "text", **more: Any) -> int:
    params = {"model": model, "collection": model}
    request = JobRequest("embed", params, key=f"{model} {word}", **more)
    texts = [f"{word} number {n}" for n in range(ITEMS)]
    return one.wiring.submission.submit(request, Texts(texts)).job.id


def hanging(over: threading.Event) -> Answer:
    """Takes requests and answers none before `over`: the way to be dead that holds places."""

    def answer(body: Mapping[str, Any]) -> Says:
        over.wait(120)
        return vectors(body)

    return answer


def test_the_other_pools_jobs_have_all_their_places(rig: MakeRig) -> None:
    """The dead one's job is older and more urgent, and there is one queue for both."""
    over = threading.Event()
    with scripted(hanging(over)) as server:
        one = two_pools(rig, server)
        first = submit(one, "dead-embed", priority=9)
        one.endpoint.order({"kind": "delay", "delay_s": 0.5, "path": "embeddings"})
        with working(one):
            until(lambda: len(server.asked) == PLACES, 30, "its calls")
            second = submit(one, "fake-embed")
            until(lambda: one.job(second).state is JobState.COMPLETED, 90, "the other job")
            stuck = one.progress(first)
            over.set()
    assert one.endpoint.ledger()["most_in_flight"] == PLACES
    assert one.progress(second).done == ITEMS
    assert (stuck.done, stuck.in_flight) == (0, PLACES)
    assert one.job(first).state is JobState.RUNNING


def held(make: MakeRig, word: str) -> str:
    """How a ring of the other pool ends while the dead one holds all places of its own."""
    over = threading.Event()
    with scripted(hanging(over)) as server:
        one = two_pools(make, server)
        first, second = submit(one, "dead-embed", word), submit(one, "fake-embed", word)
        threads = [
            threading.Thread(target=one.wiring.execution.run, args=(first,)) for _ in range(PLACES)
        ]
        for thread in threads:
            thread.start()
        until(lambda: len(server.asked) == PLACES, 30, "its calls")
        ended = one.wiring.execution.run(second).ended
        over.set()
        for thread in threads:
            thread.join(60)
    return ended


def test_mutant_that_counts_all_pools_as_one_stands_still(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert held(rig, "first") == "finished"
    look = PoolStore.look

    def of_all(self: PoolStore, pool: str, job_id: int) -> PoolSeen | None:
        seen, main = look(self, pool, job_id), look(self, "main", job_id)
        assert seen is not None
        assert main is not None
        return replace(seen, occupancy=main.occupancy)

    monkeypatch.setattr(PoolStore, "look", of_all)
    assert held(rig, "second") == "limit"
