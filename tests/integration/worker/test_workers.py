"""Worker processes: what they refuse, how they end, and that doubled ticks do nothing."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from redis.connection import Connection

from app.domain.routing import EndpointSpec
from app.worker.assembly import make
from app.worker.queues import refusal
from tests.processes import Processes, watched
from tests.rig import MakeRig, Rig
from tests.waiting import until


def ringing(one: Rig, processes: Processes) -> Any:
    """Give the rig a bell that reaches the workers."""
    return one.with_broker(processes.environment["GIVEWAY_BROKER__URL"])


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_job_runs_through_a_real_worker(processes: Processes, rig: MakeRig, pool: str) -> None:
    one = rig()
    ringing(one, processes)
    worker = processes.worker("batch", "-E", pool=pool).ready()
    job = one.submit([f"text number {n}" for n in range(1000)]).job
    assert one.wiring.ringing.ring("main") > 0
    until(lambda: one.job(job.id).state == "completed", 40, "the job")

    assert one.progress(job.id).done == 1000
    assert one.one("SELECT count(*) FROM embeddings") == 1000
    ledger = one.endpoint.ledger()
    assert ledger["most_times_one_input_was_sent"] == 1
    assert ledger["requests"] == one.one("SELECT count(*) FROM batch_calls")
    assert "ended" in worker.said
    assert "text number" not in worker.said


def test_a_worker_that_runs_uses_the_places_of_an_endpoint_that_joins(
    processes: Processes, rig: MakeRig
) -> None:
    pools = [{"name": "main", "total": 3, "batch_max": 2}]
    one = rig(pools=pools)
    one.limit(12)
    ringing(one, processes)
    one.endpoint.order({"kind": "delay", "delay_s": 2.0, "path": "embeddings"})
    # -c 0 says as little as no -c at all.
    processes.worker("batch", "-c", "0", GIVEWAY_POOLS=json.dumps(pools)).ready()
    one.submit([f"text number {n}" for n in range(4000)])
    leased = "SELECT count(*) FROM chunks WHERE state = 'leased'"

    def fills(places: int) -> None:
        def rung() -> bool:
            one.wiring.ringing.ring("main")
            return one.one(leased) == places

        until(rung, 30, f"{places} calls at once")

    fills(2)
    one.wiring.endpoints.add(
        EndpointSpec("more", "main", "openai", one.endpoint.url, ("fake-embed",), 10)
    )
    fills(12)


def test_on_term_a_worker_hands_its_chunk_back_and_goes(processes: Processes, rig: MakeRig) -> None:
    one = rig()
    ringing(one, processes)
    one.endpoint.order({"kind": "delay", "delay_s": 0.5, "path": "embeddings"})
    worker = processes.worker("batch").ready()
    # Of a hundred calls each.
    job = one.submit([f"text number {n}" for n in range(4000)], chunk_items=1000).job
    one.wiring.ringing.ring("main")
    until(lambda: one.progress(job.id).done > 0, 20, "the first checkpoint")
    worker.send(signal.SIGTERM)
    worker.process.wait(60)

    assert one.progress(job.id).done > 0
    # Each was handed back in the middle, none taken to its end.
    assert one.rows("SELECT DISTINCT state, crashes, attempt FROM chunks") == [("ready", 0, 0)]


def test_a_killed_workers_chunks_are_back_as_soon_as_it_is(
    processes: Processes, rig: MakeRig
) -> None:
    one = rig()
    ringing(one, processes)
    # Two calls are never answered, nor counted: the third of chunk 1 and the first of chunk 6.
    one.endpoint.order({"kind": "hang", "path": "embeddings", "text": "number 25"})
    worker = processes.worker("batch").ready()
    job = one.submit([f"text number {n}" for n in range(500)]).job
    one.wiring.ringing.ring("main")
    until(lambda: one.progress(job.id).done == 500 - 30 - 50, 20, "all that can be done")
    worker.send(signal.SIGKILL)
    assert one.progress(job.id).in_flight == 2
    one.endpoint.client.delete(f"{one.endpoint.root}/faults")

    processes.worker("batch").ready()
    until(lambda: one.progress(job.id).done == 500, 30, "the job")
    ledger = one.endpoint.ledger()
    assert ledger["inputs"] == 500, "what was answered before the kill is not asked for again"


def test_two_beats_and_two_control_workers_decide_once_a_tick(
    processes: Processes, rig: MakeRig
) -> None:
    one = rig()
    for _ in range(2):
        processes.beat()
    first = processes.worker("control")
    second = processes.celery(
        *("worker", "-Q", "control", "-n", "control2@test", "-P", "threads", "-c", "4"),
        *("--loglevel", "INFO"),
        name="control2",
    )
    first.ready()
    second.ready()
    decided = "SELECT count(*) FROM throttle_decisions"
    until(lambda: one.one(decided) >= 6, 15, "six decisions")
    gaps = one.rows(
        "SELECT extract(epoch FROM computed_at - lag(computed_at) OVER (ORDER BY computed_at)),"
        " (SELECT max(version) FROM throttle_limits) FROM throttle_decisions"
    )
    assert min(float(gap) for gap, _ in gaps if gap is not None) >= 0.5
    assert {version for _, version in gaps} == {len(gaps)}


@pytest.mark.parametrize("arguments", [(), ("-Q", "batch,interactive")])
def test_a_worker_of_several_queues_is_refused_with_the_right_commands(
    processes: Processes, arguments: tuple[str, ...]
) -> None:
    refused = processes.celery("worker", *arguments, name="shared")
    assert refused.process.wait(120) == 2
    assert "celery -A app worker -P threads -Q batch" in refused.said
    assert "Traceback" not in refused.said


def test_a_shared_worker_starts_when_it_is_asked_for(processes: Processes) -> None:
    processes.celery(
        *("worker", "-P", "threads", "-c", "2", "--loglevel", "INFO"),
        name="shared",
        GIVEWAY_WORKER__SHARED="true",
    ).ready()


def test_a_misspelt_queue_or_setting_stops_the_start(processes: Processes) -> None:
    assert refusal(["batc"], shared_is_wanted=False) == (
        "no queue 'batc'; known queues: interactive, batch, control"
    )
    wrong = processes.celery(*("worker", "-Q", "batch"), name="wrong", GIVEWAY_THROTTLE__TICKS="2")
    assert wrong.process.wait(120) == 2
    assert "GIVEWAY_THROTTLE__TICK_S" in wrong.said
    assert "Traceback" not in wrong.said


def test_a_bell_without_a_broker_costs_less_than_a_second(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = rig(broker={"url": "redis://127.0.0.1:1/0"})
    app = make(one.wiring)
    one.submit(["a text"])
    knocks: list[float] = []
    connect = Connection._connect

    def knock(self: Connection) -> Any:
        knocks.append(self.socket_connect_timeout)
        return connect(self)

    monkeypatch.setattr(Connection, "_connect", knock)
    assert one.wiring.ringing.ring("main") == 0
    assert len(knocks) == 2
    assert max(knocks) <= 1.0  # Seconds, where nobody even refuses.
    app.close()


def results(events: list[dict[str, Any]]) -> list[str]:
    """Of all that ended: a second ring of the bell ends too, and may find nothing to do."""
    return [event["result"] for event in events if event["type"] == "task-succeeded"]


def test_flower_sees_ids_and_numbers_and_never_a_text(processes: Processes, rig: MakeRig) -> None:
    one = rig()
    app = ringing(one, processes)
    processes.worker("batch", "-E").ready()
    one.submit([f"text number {n}" for n in range(50)])
    with watched(app) as events:
        one.wiring.ringing.ring("main")
        until(lambda: any("'done': 50" in result for result in results(events)), 15, "the end")
    app.close()

    assert [e["done"] for e in events if e["type"] == "task-progress"] == [10, 20, 30, 40, 50]
    received = next(event for event in events if event["type"] == "task-received")
    assert received["name"] == "giveway.batch.embed"
    facts = "'key': 'job', 'kind': 'embed', 'job': 1, 'chunk': 1, 'items': 50, 'attempt': 0"
    assert received["kwargs"] == f"{{{facts}, 'endpoint': 'sim'}}"
    result = next(result for result in results(events) if "'done': 50" in result)
    assert "'done': 50, 'failed': 0, 'tokens': " in result
