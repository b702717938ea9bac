"""Small embedding requests that come together share a call; a lone one waits for nobody."""

from __future__ import annotations

import statistics
import threading
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from app import clock, errors
from app.domain.inference import EmbedReply, EmbedRequest
from app.domain.requests import NewRequest
from tests.rig import MakeRig, Rig
from tests.waiting import until

MANY = 60
PATIENT = {"wait_ms": 100}
"""They wait for company as long as may be set, so that threads need not be quick."""


def a_request(priority: int = 0) -> NewRequest:
    return NewRequest(uuid.uuid4(), "main", "embed", "fake-embed", clock.now(), priority=priority)


def embed(one: Rig, text: str, request: NewRequest | None = None) -> Any:
    return one.wiring.interactive.run(request or a_request(), EmbedRequest("fake-embed", (text,)))


def all_at_once(one: Rig, texts: Sequence[str]) -> list[Any]:
    """The answer, or the error, of each text, all asked for at the same moment."""
    together = threading.Barrier(len(texts))

    def ask(text: str) -> Any:
        together.wait(60)
        try:
            return embed(one, text)
        except errors.EndpointError as error:
            return error

    with ThreadPoolExecutor(len(texts)) as threads:
        return list(threads.map(ask, texts))


def test_many_at_once_are_few_calls_and_each_gets_its_own_vector(rig: MakeRig) -> None:
    one = rig(merging=PATIENT)
    texts = [f"text number {n}" for n in range(MANY)]
    answers = all_at_once(one, texts)
    merged = one.endpoint.ledger()["requests"]
    assert merged <= 10
    one.settle()
    assert one.wiring.endpoints.listed()[0].finished == merged
    for text, answered in list(zip(texts, answers, strict=True))[::10]:
        alone = embed(one, text)
        assert isinstance(alone.reply, EmbedReply)
        assert np.allclose(answered.reply.vectors, alone.reply.vectors, atol=1e-5)


def test_without_merging_each_is_a_call_of_its_own(rig: MakeRig) -> None:
    """The mutant."""
    one = rig(merging={"wait_ms": 0})
    all_at_once(one, [f"text number {n}" for n in range(20)])
    assert one.endpoint.ledger()["requests"] == 20


def test_each_has_a_row_with_its_endpoint_its_times_and_its_share(rig: MakeRig) -> None:
    one = rig()
    all_at_once(one, [f"text number {n}" for n in range(MANY)])
    rows = one.rows(
        "SELECT state, endpoint, role, started_at <= finished_at, prompt_tokens > 0, lease_until"
        " FROM interactive_requests"
    )
    assert rows == [("done", "sim", "primary", True, True, None)] * MANY
    assert one.one("SELECT count(DISTINCT rides_on) FROM interactive_requests") >= 1


def test_a_shared_call_takes_one_place(rig: MakeRig) -> None:
    one = rig(pools=[{"name": "main", "total": 2, "batch_max": 1}], merging=PATIENT)
    one.endpoint.order({"kind": "delay", "delay_s": 0.3, "path": "embeddings"})
    seen: list[tuple[int, int]] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.02):
            seen.append(
                one.rows(
                    "SELECT count(*), count(DISTINCT coalesce(rides_on, id))"
                    " FROM interactive_requests WHERE state = 'running'"
                )[0]
            )

    watcher = threading.Thread(target=watch)
    watcher.start()
    all_at_once(one, [f"text number {n}" for n in range(30)])
    stop.set()
    watcher.join()

    assert max(calls for _rows, calls in seen) <= 2
    assert max(rows for rows, _calls in seen) > 10
    assert one.endpoint.ledger()["most_in_flight"] <= 2


def test_one_bad_text_fails_nobody_else(rig: MakeRig) -> None:
    one = rig()
    one.endpoint.order({"kind": "reject_text", "text": "poison"})
    texts = [f"text number {n}" for n in range(20)]
    texts[7] = "this is poison"
    answers = all_at_once(one, texts)
    bad = [answer for answer in answers if isinstance(answer, Exception)]
    assert [type(answer) for answer in bad] == [errors.BadRequest]
    assert isinstance(answers[7], errors.BadRequest)
    states = "SELECT state, count(*) FROM interactive_requests GROUP BY state ORDER BY state"
    assert one.rows(states) == [("done", 19), ("failed", 1)]
    assert one.endpoint.ledger()["most_times_one_input_was_sent"] == 1


def test_an_endpoint_that_fails_fails_all_of_the_call_once(rig: MakeRig) -> None:
    one = rig()
    one.endpoint.order({"kind": "status", "status": 503, "path": "embeddings"})
    answers = all_at_once(one, [f"text number {n}" for n in range(20)])
    assert all(isinstance(answer, errors.Overloaded) for answer in answers)
    assert one.rows("SELECT DISTINCT state, error_code FROM interactive_requests") == [
        ("failed", "overloaded")
    ]


def test_who_leaves_takes_nobody_along(rig: MakeRig) -> None:
    one = rig()
    one.endpoint.order({"kind": "delay", "delay_s": 2.0, "path": "embeddings"})
    requests = [a_request() for _ in range(6)]
    with ThreadPoolExecutor(6) as threads:
        asked = [
            threads.submit(embed, one, f"text number {n}", request)
            for n, request in enumerate(requests)
        ]
        running = "SELECT count(*) FROM interactive_requests WHERE state = 'running'"
        until(lambda: one.one(running) == 6, 5, "the calls")
        riding = "SELECT id FROM interactive_requests WHERE rides_on IS NOT NULL LIMIT 1"
        leaver = one.one(riding)
        assert one.wiring.interactive.cancel(leaver) == "running"
        ended = [future.exception(60) for future in asked]
    gone = [request.id for request, error in zip(requests, ended, strict=True) if error is not None]
    assert gone == [leaver]
    assert one.one("SELECT count(*) FROM interactive_requests WHERE state = 'done'") == 5
    last = one.rows("SELECT state, error_code FROM interactive_requests WHERE state <> 'done'")
    assert last == [("failed", "abandoned")]


def test_a_lone_request_waits_for_nobody(rig: MakeRig) -> None:
    one, unmerged = rig(merging=PATIENT), rig(merging={"wait_ms": 0}, declare=False)
    times: dict[Rig, list[float]] = {one: [], unmerged: []}
    for n in range(20):
        for each, took_s in times.items():
            began = time.monotonic()
            embed(each, f"text number {n}")
            took_s.append(time.monotonic() - began)
    assert one.one("SELECT count(rides_on) FROM interactive_requests") == 0
    gained_ms = (statistics.median(times[one]) - statistics.median(times[unmerged])) * 1000
    assert gained_ms <= 50  # Half of what it would wait for company.
