"""Taking places back: streaming calls are closed at once, within a budget of thrown-away work."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from app.services.submission import JobRequest
from tests.rig import MakeRig, Rig, Texts
from tests.served import Served, serving
from tests.waiting import until

LONG = {"model": "fake-chat", "prompt": "tell all about {{ text }} and " * 90, "max_tokens": 300}


@pytest.fixture
def endpoint() -> Iterator[Served]:
    """An engine in real time: a token takes 12.5 ms, an answer of 300 takes four seconds."""
    with serving("--places", "8", "--ledger") as served:
        yield served


def generate(one: Rig, texts: list[str], **more: Any) -> int:
    request = JobRequest("generate", LONG, key="long", chunk_items=1, **more)
    return one.wiring.submission.submit(request, Texts(texts)).job.id


def someone_waits(one: Rig, seconds: float) -> None:
    """A request that has waited so long for its first token."""
    one.execute(
        "INSERT INTO interactive_requests (id, pool, task_type, model, state, endpoint, worker,"
        " submitted_at, started_at, lease_until) VALUES (:id, 'main', 'chat', 'fake-chat',"
        " 'running', 'sim', 'w#1', now() - make_interval(secs => :ago), now(),"
        " now() + interval '1 minute')",
        id=uuid.uuid4(),
        ago=seconds,
    )


def running(one: Rig, job_id: int, chunks: int) -> list[threading.Thread]:
    """So many workers' threads, each in the middle of a long answer."""
    threads = [
        threading.Thread(target=one.wiring.execution.run, args=(job_id,)) for _ in range(chunks)
    ]
    for thread in threads:
        thread.start()
    until(lambda: one.endpoint.ledger()["most_running"] >= chunks, 10, "the calls")
    return threads


def test_the_newest_calls_over_the_limit_are_closed_when_somebody_waits(rig: MakeRig) -> None:
    one = rig(pools=[{"name": "main", "total": 8, "policy": "static", "options": {"cap": 2}}])
    job_id = generate(one, [f"subject {n}" for n in range(4)])
    done_before(one, job_id, tokens=1_000_000)
    threads = running(one, job_id, 4)
    someone_waits(one, 2.0)
    one.wiring.throttling.tick("main")

    given = "SELECT count(*) FROM chunks WHERE state = 'ready'"
    until(lambda: one.one(given) == 2, 3, "two places that are given back")
    assert (
        one.rows("SELECT attempt, crashes, wasted_tokens > 0 FROM chunks WHERE state = 'ready'")
        == [(0, 0, True)] * 2
    )
    assert one.progress(job_id).wasted_tokens > 0
    for thread in threads:
        thread.join(20)
    one.execute("DELETE FROM interactive_requests")
    one.limit(7)
    assert one.work(job_id).state == "completed"


def test_nobody_waiting_means_nothing_is_thrown_away(rig: MakeRig) -> None:
    one = rig(pools=[{"name": "main", "total": 8, "policy": "static", "options": {"cap": 2}}])
    job_id = generate(one, [f"subject {n}" for n in range(4)])
    done_before(one, job_id, tokens=1_000_000)
    threads = running(one, job_id, 4)
    one.wiring.throttling.tick("main")
    for thread in threads:
        thread.join(20)
    assert one.progress(job_id).wasted_tokens == 0
    assert one.progress(job_id).done >= 4


@pytest.mark.parametrize(("cap", "asked"), [(3, 0), (1, 3)], ids=["one over", "most over"])
def test_one_call_over_the_limit_ends_by_itself_before_most_would(
    rig: MakeRig, cap: int, asked: int
) -> None:
    one = rig(pools=[{"name": "main", "total": 8, "policy": "static", "options": {"cap": cap}}])
    job_id = generate(one, [f"subject {n}" for n in range(4)])
    done_before(one, job_id, tokens=1_000_000)
    threads = running(one, job_id, 4)
    one.execute(
        "UPDATE chunks SET leased_at = leased_at - interval '2.5 seconds' WHERE state = 'leased'"
    )
    one.wiring.throttling.tick("main")
    assert one.one("SELECT count(*) FROM chunks WHERE yield_requested") == asked
    one.endpoint.process.terminate()  # What comes of the answers is looked at elsewhere.
    for thread in threads:
        thread.join(20)


@pytest.mark.parametrize(
    ("may_yield", "tokens"), [(False, 1_000_000), (True, 0)], ids=["opted out", "no budget"]
)
def test_a_job_that_opted_out_and_a_spent_budget_close_nothing(
    rig: MakeRig, may_yield: bool, tokens: int
) -> None:
    one = rig(pools=[{"name": "main", "total": 8, "policy": "static", "options": {"cap": 1}}])
    job_id = generate(one, [f"subject {n}" for n in range(2)], may_yield=may_yield)
    done_before(one, job_id, tokens=tokens)
    threads = running(one, job_id, 2)
    # Each call has cost something, so that closing it is never free.
    one.execute("UPDATE chunks SET prompt_tokens = prompt_tokens + 500 WHERE state = 'leased'")
    someone_waits(one, 2.0)
    one.wiring.throttling.tick("main")
    assert one.one("SELECT count(*) FROM chunks WHERE yield_requested") == 0
    for thread in threads:
        thread.join(20)
    assert one.progress(job_id).wasted_tokens == 0


def done_before(one: Rig, job_id: int, tokens: int) -> None:
    """Work that the job's jobs have to show, against which waste is counted."""
    one.execute(
        "INSERT INTO chunks (job_id, no, pool, first_seq, last_seq, items, state, prompt_tokens)"
        " VALUES (:job_id, 99, 'main', 99, 98, 0, 'done', :tokens)",
        job_id=job_id,
        tokens=tokens,
    )
