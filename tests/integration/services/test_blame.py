"""One input that keeps failing fails alone: its job goes on, and nobody else notices."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from app import clock
from app.domain.blame import Blame
from app.domain.inference import ChatRequest, Message
from app.domain.jobs import JobState
from app.domain.requests import NewRequest
from app.services import blaming
from app.services.submission import JobRequest
from tests.rig import MakeRig, Rig, Texts
from tests.scripted import Says, scripted, vectors

POISON = "this one holds POISON"
BATCH = {
    "chunk_items": 50,
    "micro_batch_items": 20,
    "retry_base_s": 0.01,
    "max_attempts": 3,
    "call_timeout_s": 0.3,
}
FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "drop"}, "connection"),
    ({"kind": "status", "status": 503}, "overloaded"),
    ({"kind": "status", "status": 503, "retry_after": "0"}, "overloaded"),
    ({"kind": "status", "status": 529}, "overloaded"),
    ({"kind": "status", "status": 500}, "server_error"),
    ({"kind": "hang"}, "timeout"),
]
OF_VECTORS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "bad_json"}, "bad_reply"),
    ({"kind": "vectors", "mode": "nan"}, "bad_reply"),
]


def texts(*poisoned: int, of: int = 20) -> list[str]:
    return [f"{POISON} {n}" if n in poisoned else f"harmless text {n}" for n in range(of)]


def submitted(one: Rig, task: str, given: list[str], key: str = "job") -> int:
    if task == "embed":
        return one.submit(given, key=key).job.id
    request = JobRequest("generate", {"model": "fake-chat", "max_tokens": 8}, key=key)
    return one.wiring.submission.submit(request, Texts(given)).job.id


def worked(one: Rig, job_id: int, within_s: float = 30.0) -> None:
    """Work until the job is over; each time the endpoint must be as if nothing had happened."""
    end = time.monotonic() + within_s
    while one.work(job_id).state is not JobState.COMPLETED:
        assert time.monotonic() < end, one.progress(job_id)
        time.sleep(0.01)


def standing(one: Rig) -> tuple[Any, ...]:
    row = one.rows("SELECT breaker, failures, refusals, cool_until, error_code FROM endpoints")[0]
    return tuple(row)


WELL = ("closed", 0, 0, None, None)


@pytest.mark.parametrize(
    ("task", "fault", "code"),
    [
        *(("generate", *each) for each in FAULTS),
        *(("embed", *each) for each in [*FAULTS, *OF_VECTORS]),
    ],
)
def test_one_poisonous_item_fails_with_its_code_and_the_others_are_done(
    rig: MakeRig, task: str, fault: dict[str, Any], code: str
) -> None:
    one = rig(batch=BATCH)
    one.endpoint.order(fault | {"text": "POISON"})
    job_id = submitted(one, task, texts(4))
    one.work(job_id)
    assert one.progress(job_id).done == 19  # It stepped behind at once.
    worked(one, job_id)
    assert one.rows("SELECT seq, code FROM results WHERE status = 'failed'") == [(5, code)]
    assert standing(one) == WELL
    assert one.one("SELECT max(attempt) FROM chunks") == 2


@pytest.mark.parametrize("alone", [1, 3])
def test_alone_they_fail_as_well(rig: MakeRig, alone: int) -> None:
    one = rig(batch=BATCH)
    one.endpoint.order({"kind": "drop", "text": "POISON"})
    job_id = submitted(one, "generate", texts(*range(alone), of=alone))
    worked(one, job_id)
    assert one.rows("SELECT DISTINCT code, count(*) FROM results GROUP BY code") == [
        ("connection", alone)
    ]
    assert standing(one) == WELL


def test_two_of_different_kinds_do_not_excuse_each_other(rig: MakeRig) -> None:
    one = rig(batch=BATCH)
    one.endpoint.order({"kind": "drop", "text": "POISON 3"})
    one.endpoint.order({"kind": "status", "status": 503, "text": "POISON 9"})
    job_id = submitted(one, "generate", texts(3, 9))
    worked(one, job_id)
    assert one.rows("SELECT seq, code FROM results WHERE status = 'failed' ORDER BY seq") == [
        (4, "connection"),
        (10, "overloaded"),
    ]
    assert standing(one) == WELL


def test_one_that_asks_for_time_each_time_holds_up_nobody_for_long(rig: MakeRig) -> None:
    one = rig(batch=BATCH)
    fault = {"kind": "status", "status": 503, "retry_after": "1", "text": "POISON"}
    one.endpoint.order(fault)
    job_id = submitted(one, "generate", texts(0))
    worked(one, job_id)
    assert one.rows("SELECT seq, code FROM results WHERE status = 'failed'") == [(1, "overloaded")]
    # It was heeded once; then the others overtook the item, and it was the item's.
    assert one.one("SELECT count(*) FROM batch_calls WHERE error_code = 'overloaded'") == 4


def test_one_that_is_always_limited_steps_behind_the_others(rig: MakeRig) -> None:
    one = rig(batch={**BATCH, "chunk_items": 5})
    one.endpoint.order({"kind": "status", "status": 429, "text": "POISON"})
    job_id = submitted(one, "generate", texts(0))
    end = time.monotonic() + 30
    while one.progress(job_id).done < 19:
        assert time.monotonic() < end, one.progress(job_id)
        one.wiring.execution.run(job_id)
        time.sleep(0.01)
    assert one.one("SELECT max(attempt) FROM chunks") == 0


def test_a_person_is_served_while_the_item_fails(rig: MakeRig) -> None:
    one = rig(batch=BATCH)
    one.endpoint.order({"kind": "drop", "text": "POISON"})
    job_id = submitted(one, "generate", texts(0, of=2))
    for number in range(3):
        one.wiring.execution.run(job_id)
        new = NewRequest(uuid.uuid4(), "main", "chat", "fake-chat", clock.now())
        asked = ChatRequest("fake-chat", (Message("user", f"person {number}"),), 8)
        assert one.wiring.interactive.run(new, asked).queue_ms < 200
        time.sleep(0.03)


def test_mutant_that_always_blames_the_endpoint_never_ends_and_holds_up_everybody(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blaming, "blamed", lambda _known: Blame.ENDPOINT)
    one = rig(batch=BATCH)
    one.endpoint.order({"kind": "drop", "text": "POISON"})
    job_id = submitted(one, "generate", texts(4))
    for _ in range(10):
        one.work(job_id)
        one.execute("UPDATE endpoints SET cool_until = NULL")
        one.execute("UPDATE chunks SET not_before = NULL")
    assert standing(one) != WELL
    assert one.job(job_id).state is not JobState.COMPLETED
    assert one.one("SELECT max(attempt) FROM chunks") == 0


# What is the endpoint's stays the endpoint's


def dead(_body: Mapping[str, Any]) -> Says:
    return Says(503, {"error": {"message": "loading"}})


@pytest.mark.parametrize("task", ["generate", "embed"])
def test_an_outage_counts_no_attempt_and_costs_few_requests(rig: MakeRig, task: str) -> None:
    with scripted(dead) as server:
        one = rig(endpoints=[server.at()], batch=BATCH)
        job_id = submitted(one, task, texts())
        for _ in range(5):
            one.execute("UPDATE endpoints SET cool_until = NULL")
            ended = one.wiring.execution.run(job_id).ended
            assert ended in ("overloaded", "nothing_ready")  # It comes back behind the others.
        assert one.rows("SELECT DISTINCT state, attempt, failed FROM chunks") == [("ready", 0, 0)]
        assert standing(one)[2] >= 1
        assert len(server.asked) <= 2 * 5


def test_an_outage_in_the_middle_of_a_job_counts_no_attempt(rig: MakeRig) -> None:
    broken: list[bool] = []

    def answer(body: Mapping[str, Any]) -> Says:
        return dead(body) if broken else vectors(body)

    with scripted(answer) as server:
        one = rig(endpoints=[server.at()], batch={**BATCH, "chunk_items": 20})
        job_id = submitted(one, "embed", texts(of=60))
        one.wiring.execution.run(job_id)
        broken.append(True)
        assert one.wiring.execution.run(job_id).ended == "overloaded"
        assert standing(one)[2] == 1
        broken.clear()
        one.execute("UPDATE endpoints SET cool_until = NULL, refusals = 0")
        worked(one, job_id)
        assert one.one("SELECT max(attempt) FROM chunks") == 0
        assert one.progress(job_id).done == 60


def test_a_server_that_answers_nothing_but_small_requests_is_left_alone(rig: MakeRig) -> None:
    def answer(body: Mapping[str, Any]) -> Says:
        return vectors(body) if len(body["input"][0]) < 10 else Says(500)

    with scripted(answer) as server:
        one = rig(
            endpoints=[server.at()],
            batch={**BATCH, "micro_batch_items": 1},
            health={"failures_to_open": 3},
        )
        job_id = submitted(one, "embed", texts(of=40))
        one.wiring.execution.run(job_id)
        assert standing(one)[0] == "open"
