"""Refusals by the dozen: one layer tries again, and that is the row. The endpoint counts."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from app import clock, errors
from app.domain.inference import ChatRequest, EmbedRequest, Message
from app.domain.jobs import CLAIMABLE, JobState
from app.domain.requests import NewRequest
from app.inference.wire import Wire
from tests.rig import MakeRig, Rig
from tests.scripted import Says, Scripted, scripted, vectors
from tests.waiting import until

TEXTS = [f"text number {n}" for n in range(200)]
REFUSALS = (429, 503, 500, 429, 529)


def at_random(seed: int) -> Any:
    """Two of three requests are refused, each in one of the ways that servers have."""
    chance = random.Random(seed)

    def answer(body: Mapping[str, Any]) -> Says:
        if chance.random() < 2 / 3:
            return Says(chance.choice(REFUSALS), {"error": {"message": "not now"}})
        return vectors(body)

    return answer


def storm(make: MakeRig, server: Scripted) -> tuple[Rig, int]:
    """Two processes of four threads each work off a job while most of their calls are refused."""
    settings: dict[str, Any] = {
        "endpoints": [server.at()],
        "batch": {"chunk_items": 20, "retry_base_s": 0.02, "retry_max_s": 0.1, "max_attempts": 100},
        "health": {"failures_to_open": 10_000},
    }
    one, other = make(**settings), make(declare=False, **settings)
    job_id = one.submit(TEXTS).job.id
    with ThreadPoolExecutor(8) as pool:
        for thread in [pool.submit(work_off, (one, other)[n % 2], job_id) for n in range(8)]:
            thread.result()
    return one, job_id


def work_off(one: Rig, job_id: int) -> None:
    until(lambda: one.work(job_id).state is JobState.COMPLETED, 90, "the job's end")


def recorded(one: Rig) -> int:
    return int(one.one("SELECT count(*) FROM batch_calls"))


def test_in_a_storm_of_refusals_each_request_is_one_call_of_a_row(rig: MakeRig) -> None:
    """A hidden layer that tries again would make the endpoint count more than the rows have."""
    with scripted(at_random(1)) as server:
        one, job_id = storm(rig, server)
        assert len(server.asked) == recorded(one)
    assert one.one("SELECT count(*) FROM batch_calls WHERE error_code IS NOT NULL") > 20
    progress = one.progress(job_id)
    assert (progress.done, progress.failed) == (200, 0)
    answered = one.one("SELECT sum(items) FROM batch_calls WHERE error_code IS NULL")
    assert answered == 200  # What was answered was not asked for again.


def test_mutant_whose_client_tries_again_by_itself_is_seen(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted = Wire._posted

    def stubborn(self: Wire, *given: Any) -> Any:
        for _ in range(2):
            try:
                return posted(self, *given)
            except (errors.RateLimited, errors.Overloaded, errors.ServerFault):
                continue
        return posted(self, *given)

    monkeypatch.setattr(Wire, "_posted", stubborn)
    with scripted(at_random(1)) as server:
        one, _ = storm(rig, server)
        assert len(server.asked) > 1.5 * recorded(one)


@pytest.mark.parametrize(("task", "status"), [("chat", 429), ("embed", 503), ("embed", 500)])
def test_a_persons_request_is_sent_once_to_each_endpoint_however_many_ask(
    rig: MakeRig, task: str, status: int
) -> None:
    refused = Says(status, {"error": {"message": "not now"}}, {"retry-after": "0"})
    with scripted(lambda _: refused) as first, scripted(lambda _: refused) as second:
        one = rig(
            endpoints=[first.at("a"), second.at("b")],
            health={"failures_to_open": 10_000},
            batch={"retry_base_s": 0.02},
        )
        with ThreadPoolExecutor(12) as pool:
            asking = [pool.submit(asked, one, task, number) for number in range(12)]
            for thread in asking:
                assert isinstance(thread.exception(60), errors.EndpointError)
        for server in (first, second):
            times = Counter(str(body.get("input") or body["messages"]) for body in server.asked)
            assert set(times.values()) <= {1}
        assert 1 <= len(first.asked) + len(second.asked) <= 2 * 12


def asked(one: Rig, task: str, number: int) -> Any:
    at = clock.now()
    deadline_at = at + timedelta(seconds=30)
    model = f"fake-{task}"
    request = NewRequest(uuid.uuid4(), "main", task, model, at, deadline_at=deadline_at)
    said = f"person number {number}"
    call = ChatRequest(model, (Message("user", said),), 8)
    return one.wiring.interactive.run(
        request, call if task == "chat" else EmbedRequest(model, (said,))
    )


def in_s(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("headers", "cools_s"),
    [
        ({"retry-after-ms": "90000"}, 90),
        ({"retry-after-ms": "90000", "retry-after": "1"}, 90),
        ({"retry-after-ms": "soon", "retry-after": "90"}, 90),
        ({"retry-after": "90.5"}, 90),
        ({"retry-after": "a date"}, 90),
        ({"retry-after": "9" * 12}, 3600),
        ({"retry-after": "Fri, 31 Dec 2199 23:59:59 GMT"}, 3600),
        ({"retry-after-ms": "1e300"}, 3600),
    ],
    ids=lambda value: str(value)[:60],
)
def test_whatever_it_asks_for_the_endpoint_cools_down_and_nobody_waits_in_a_thread(
    rig: MakeRig, headers: dict[str, str], cools_s: int
) -> None:
    if headers.get("retry-after") == "a date":
        headers = {"retry-after": in_s(90)}
    with scripted(lambda _: Says(429, {}, headers)) as server:
        one = rig(endpoints=[server.at()])
        job_id = one.submit(TEXTS).job.id
        with ThreadPoolExecutor(4) as pool:
            runs = [pool.submit(one.wiring.execution.run, job_id) for _ in range(4)]
            ends = {run.result(60).ended for run in runs}
        assert one.wiring.execution.run(job_id).ended == "endpoints"
        assert ends <= {"rate_limited", "endpoints"}
        assert 1 <= len(server.asked) <= 4
    left_s = one.one("SELECT extract(epoch FROM cool_until - now()) FROM endpoints")
    assert cools_s - 25 <= left_s <= cools_s + 1
    assert one.rows("SELECT DISTINCT state, attempt, crashes FROM chunks") == [("ready", 0, 0)]


@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after": "1e999"},
        {"retry-after": "-5"},
        {"retry-after-ms": "nan"},
        {"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"},
        {"retry-after": "\xff\xfe"},
        {"retry-after-ms": "1"},
    ],
    ids=str,
)
def test_what_makes_no_sense_or_is_next_to_nothing_gets_our_own_backoff(
    rig: MakeRig, headers: dict[str, str]
) -> None:
    with scripted(lambda _: Says(429, {}, headers)) as server:
        one = rig(endpoints=[server.at()], batch={"retry_base_s": 60.0, "retry_max_s": 300.0})
        job_id = one.submit(TEXTS).job.id
        assert one.wiring.execution.run(job_id).ended == "rate_limited"
        assert one.wiring.execution.run(job_id).ended == "endpoints"
        assert len(server.asked) == 1
    left_s = one.one("SELECT extract(epoch FROM cool_until - now()) FROM endpoints")
    assert 10 <= left_s <= 30  # Half to all of the base, and never beyond half a minute.


def test_where_nobody_has_quota_left_the_job_pauses_with_the_reason(rig: MakeRig) -> None:
    spent = Says(429, {"error": {"message": "no credit", "code": "insufficient_quota"}})
    with scripted(lambda _: spent) as first, scripted(lambda _: spent) as second:
        one = rig(endpoints=[first.at("a"), second.at("b")])
        job = one.work(one.submit(TEXTS).job.id)
        assert job.state is JobState.PAUSED
        assert str(job.reason).startswith("quota_exhausted")
        assert (len(first.asked), len(second.asked)) == (1, 1)
        assert one.work(job.id).state is JobState.PAUSED
        assert (len(first.asked), len(second.asked)) == (1, 1)


def test_where_the_other_endpoint_merely_cools_down_it_is_waited_for(rig: MakeRig) -> None:
    spent = Says(429, {"error": {"message": "no credit", "code": "insufficient_quota"}})
    with scripted(lambda _: spent) as first, scripted(vectors) as second:
        one = rig(endpoints=[first.at("a"), second.at("b")])
        in_an_hour = "cool_until = now() + interval '1 hour', refusals = 1"
        one.execute(f"UPDATE endpoints SET {in_an_hour} WHERE name = 'b'")
        job = one.work(one.submit(TEXTS).job.id)
        assert (job.state in CLAIMABLE, job.reason) == (True, None)
        assert (len(first.asked), len(second.asked)) == (1, 0)
        one.execute("UPDATE endpoints SET cool_until = now() WHERE name = 'b'")
        assert one.work(job.id).state is JobState.COMPLETED
        assert len(first.asked) == 1


def test_where_the_other_endpoint_cools_down_for_want_of_money_the_job_pauses(
    rig: MakeRig,
) -> None:
    spent = Says(429, {"error": {"message": "no credit", "code": "insufficient_quota"}})
    with scripted(lambda _: spent) as first, scripted(vectors) as second:
        one = rig(endpoints=[first.at("a"), second.at("b")])
        wants = "cool_until = now() + interval '1 minute', error_code = 'auth', refusals = 1"
        one.execute(f"UPDATE endpoints SET {wants} WHERE name = 'b'")
        assert one.work(one.submit(TEXTS).job.id).state is JobState.PAUSED
