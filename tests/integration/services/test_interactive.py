"""Interactive requests: places, order, deadlines, and a database that is away."""

from __future__ import annotations

import threading
import time
import uuid
from datetime import timedelta

import pytest

from app import clock, errors
from app.domain.inference import ChatReply, ChatRequest, Message
from app.domain.requests import NewRequest
from tests.rig import MakeRig
from tests.waiting import until

HELLO = ChatRequest("fake-chat", (Message("user", "Hello there. How are you?"),), 8)


def a_request(priority: int = 0, ago_s: float = 0.0) -> NewRequest:
    asked_at = clock.now() - timedelta(seconds=ago_s)
    return NewRequest(uuid.uuid4(), "main", "chat", "fake-chat", asked_at, priority=priority)


def test_an_answer_leaves_a_finished_row_without_its_text(rig: MakeRig) -> None:
    one = rig()
    answered = one.wiring.interactive.run(a_request(), HELLO)
    assert isinstance(answered.reply, ChatReply)
    row = one.rows(
        "SELECT state, endpoint, completion_tokens, lease_until, error_code"
        " FROM interactive_requests"
    )
    assert row == [("done", "sim", 8, None, None)]
    assert answered.first_token_ms is not None
    assert answered.queue_ms <= answered.first_token_ms <= answered.total_ms


def test_a_failed_call_says_its_code_in_the_row(rig: MakeRig) -> None:
    one = rig()
    one.endpoint.order({"kind": "status", "status": 503, "path": "chat"})
    with pytest.raises(errors.Overloaded):
        one.wiring.interactive.run(a_request(), HELLO)
    assert one.rows("SELECT state, error_code FROM interactive_requests") == [
        ("failed", "overloaded")
    ]


def test_a_full_pool_serves_priority_first_and_then_age(rig: MakeRig) -> None:
    one = rig(pools=[{"name": "main", "total": 2, "batch_max": 1}])
    first_two = {"kind": "delay", "delay_s": 2.0, "path": "chat", "remaining": 2}
    one.endpoint.order(first_two, {"kind": "delay", "delay_s": 0.4, "path": "chat"})
    order: list[str] = []

    def ask(name: str, priority: int, ago_s: float) -> None:
        one.wiring.interactive.run(a_request(priority, ago_s), HELLO)
        order.append(name)

    threads = [threading.Thread(target=ask, args=(f"first{n}", 0, 100)) for n in range(2)]
    for thread in threads:
        thread.start()
    until(lambda: one.endpoint.ledger()["requests"] == 2, 10, "the first two")
    later = [("young", 0, 0.0), ("old", 0, 50.0), ("urgent", 5, 0.0), ("urgent old", 5, 20.0)]
    threads += [threading.Thread(target=ask, args=given) for given in later]
    for thread in threads[2:]:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert set(order[2:4]) == {"urgent", "urgent old"}
    assert set(order[4:]) == {"old", "young"}


def test_a_request_without_a_place_is_dropped_unstarted_at_its_deadline(rig: MakeRig) -> None:
    one = rig(pools=[{"name": "main", "total": 2, "batch_max": 1}], interactive={"deadline_s": 0.3})
    one.execute(
        "INSERT INTO interactive_requests (id, pool, task_type, model, state, submitted_at,"
        " lease_until, endpoint) SELECT gen_random_uuid(), 'main', 'chat', 'm', 'running', now(),"
        " now() + interval '1 minute', 'sim' FROM generate_series(1, 2)"
    )
    with pytest.raises(errors.EndpointTimeout, match="dropped unstarted"):
        one.wiring.interactive.run(a_request(), HELLO)
    assert one.one("SELECT count(*) FROM interactive_requests WHERE state = 'dropped'") == 1
    assert one.endpoint.ledger()["requests"] == 0


def test_without_a_database_people_are_served_all_the_same(rig: MakeRig) -> None:
    one = rig()
    dead = rig(database={"url": "postgresql://nobody@127.0.0.1:1/none"}, declare=False)
    began = time.monotonic()
    answered = dead.wiring.interactive.run(a_request(), HELLO)
    assert isinstance(answered.reply, ChatReply)
    assert time.monotonic() - began < 30  # Of the two minutes that a person waits.
    assert one.endpoint.ledger()["requests"] == 1
