"""A caller who is gone: what was not sent is not sent, and a call in flight is closed at once."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from app.errors import Abandoned, EndpointTimeout
from app.services.people.keeping import Keeping
from tests.processes import Processes
from tests.rig import MakeRig, Rig
from tests.served import Served, serving
from tests.waiting import until


@pytest.fixture
def endpoint() -> Iterator[Served]:
    """An engine at a twentieth of its pace: an answer of 800 tokens takes minutes."""
    with serving("--places", "8", "--speed", "0.05", "--ledger") as served:
        yield served


@pytest.fixture
def one(rig: MakeRig, processes: Processes) -> Rig:
    """An endpoint with one place, an interactive worker, and an app to send with."""
    places = json.loads(processes.environment["GIVEWAY_ENDPOINTS"])
    places[0]["max_concurrency"] = 1
    processes.environment["GIVEWAY_ENDPOINTS"] = json.dumps(places)
    return rig()


@pytest.fixture
def app(one: Rig, processes: Processes) -> Iterator[Any]:
    processes.worker("interactive").ready()
    app = one.with_broker(processes.environment["GIVEWAY_BROKER__URL"])
    yield app
    gc.collect()  # Results that nobody waits for take leave of the broker while there is one.
    app.close()
    app.backend.result_consumer.stop()
    app.backend.client.connection_pool.disconnect()


def ask(app: Any, task_id: uuid.UUID | None = None, **more: Any) -> Any:
    story = " ".join(f"In chapter {n} somebody does thing number {n}." for n in range(60))
    asked = {"prompt": story, "model": "fake-chat", "max_tokens": 800}
    return app.send_task(
        "giveway.interactive.chat", kwargs=asked | more, task_id=str(task_id or uuid.uuid4())
    )


def outcome(one: Rig, request_id: str) -> tuple[str, str | None]:
    rows = one.rows(
        "SELECT state, error_code FROM interactive_requests WHERE id = :id", id=request_id
    )
    return tuple(rows[0]) if rows else ("unknown", None)  # type: ignore[return-value]


def ended(one: Rig) -> list[str]:
    """How the calls ended, as the endpoint saw it."""
    outcomes = one.endpoint.ledger()["outcomes"]
    return [each["outcome"] for each in outcomes for _ in range(each["count"])]


def test_a_streaming_call_is_closed_when_its_caller_goes(one: Rig, app: Any) -> None:
    sent = ask(app)
    streams = "SELECT count(*) FROM interactive_requests WHERE first_token_at IS NOT NULL"
    until(lambda: one.one(streams) == 1, 15, "the first token")
    assert one.wiring.interactive.cancel(uuid.UUID(sent.id)) == "running"

    until(lambda: ended(one) == ["hung_up"], 15, "the end of the connection")
    with pytest.raises(Abandoned):
        sent.get(timeout=60)
    until(lambda: outcome(one, sent.id) == ("failed", "abandoned"), 10, "the row's end")


def test_who_leaves_the_line_is_never_sent(one: Rig, app: Any) -> None:
    one.endpoint.order({"kind": "hang", "path": "chat"})
    first = ask(app)
    until(lambda: one.endpoint.ledger()["requests"] == 1, 10, "the first call")
    second = ask(app)
    until(lambda: outcome(one, second.id)[0] == "queued", 10, "the line")
    assert one.wiring.interactive.cancel(uuid.UUID(second.id)) == "queued"

    with pytest.raises(Abandoned, match="dropped unstarted"):
        second.get(timeout=60)
    until(lambda: outcome(one, second.id) == ("dropped", "abandoned"), 10, "the row's end")
    one.wiring.interactive.cancel(uuid.UUID(first.id))
    until(lambda: outcome(one, first.id)[0] == "failed", 15, "the first one's end")
    assert one.endpoint.ledger()["requests"] == 1


def test_a_request_that_is_taken_back_before_it_comes_is_dropped_as_it_comes(
    one: Rig, app: Any
) -> None:
    task_id = uuid.uuid4()
    assert one.wiring.interactive.cancel(task_id) is None
    with pytest.raises(Abandoned, match="dropped unstarted"):
        ask(app, task_id).get(timeout=60)
    row = one.rows("SELECT state, error_code, pool, model FROM interactive_requests")
    assert row == [("dropped", "abandoned", "main", "fake-chat")]
    assert one.endpoint.ledger()["requests"] == 0


def test_a_deadline_that_passes_in_the_line_is_said_and_nothing_is_sent(one: Rig, app: Any) -> None:
    one.endpoint.order({"kind": "hang", "path": "chat"})
    first = ask(app)
    until(lambda: one.endpoint.ledger()["requests"] == 1, 10, "the first call")
    late = ask(app, deadline_s=0.5)
    with pytest.raises(EndpointTimeout, match="dropped unstarted"):
        late.get(timeout=60)
    until(lambda: outcome(one, late.id) == ("dropped", "timeout"), 10, "the row's end")
    one.wiring.interactive.cancel(uuid.UUID(first.id))
    until(lambda: outcome(one, first.id)[0] == "failed", 15, "the first one's end")
    assert one.endpoint.ledger()["requests"] == 1


def test_ctrl_c_takes_the_question_back(one: Rig, app: Any, processes: Processes) -> None:
    one.endpoint.order({"kind": "hang", "path": "chat"})
    # A shell's background job has Ctrl-C ignored, and would hand that down.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    asking = subprocess.Popen(
        [sys.executable, "-m", "app.cli.main", "ask", "hello there", "--model", "fake-chat"],
        env={**os.environ, **processes.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, before)
    until(lambda: one.endpoint.ledger()["requests"] == 1, 15, "the call")
    asking.send_signal(signal.SIGINT)
    _out, said = asking.communicate(timeout=120)

    assert "Traceback" not in said
    until(lambda: ended(one) == ["hung_up"], 15, "the end of the connection")
    stands = "SELECT state, error_code FROM interactive_requests"
    until(lambda: one.rows(stands) == [("failed", "abandoned")], 10, "the row's end")


def test_without_the_look_nobody_notices_that_a_caller_went(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant: the lane does not look."""
    import threading

    from app import clock
    from app.domain.inference import ChatRequest, Message
    from app.domain.requests import NewRequest

    async def blind(_: Keeping) -> None:
        pass

    monkeypatch.setattr(Keeping, "look", blind)
    one = rig(batch={"heartbeat_s": 0.3})
    one.endpoint.order({"kind": "delay", "delay_s": 1.5, "path": "chat"})
    request = NewRequest(uuid.uuid4(), "main", "chat", "fake-chat", clock.now())
    asked = ChatRequest("fake-chat", (Message("user", "hello"),), 4)
    person = threading.Thread(target=one.wiring.interactive.run, args=(request, asked))
    person.start()
    until(lambda: one.endpoint.ledger()["requests"] == 1, 5, "the call")
    one.wiring.interactive.cancel(request.id)
    person.join(60)
    assert ended(one) == ["ok"]
    assert outcome(one, str(request.id)) == ("done", None)
