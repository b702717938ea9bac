"""Failover of people: primary, backup, degraded, each tried once, within the deadline."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from app import clock, errors
from app.domain.failover import moves_on
from app.domain.inference import ChatReply, ChatRequest, EmbedRequest, Message
from app.domain.requests import NewRequest
from tests.rig import MakeRig, Rig
from tests.served import Served, serving
from tests.waiting import until

HELLO = ChatRequest("fake-chat", (Message("user", "Hello there. How are you?"),), 8)


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Served, Served]]:
    """A backup, and a degraded one with a smaller model."""
    with (
        serving("--places", "8", "--speed", "50", "--models", "fake-chat", "fake-embed") as backup,
        serving("--places", "8", "--speed", "50", "--models", "small-chat") as degraded,
    ):
        yield backup, degraded


@pytest.fixture
def three(rig: MakeRig, endpoint: Served, servers: tuple[Served, Served]) -> Iterator[Rig]:
    """A pool of two primaries' places with a backup and a degraded endpoint behind."""
    for one in servers:
        one.calm()
    yield rig(
        endpoints=declared(endpoint, *servers), pools=[{"name": "main", "total": 2, "batch_max": 1}]
    )
    for one in servers:
        one.calm()


def declared(first: Served, backup: Served, degraded: Served) -> list[dict[str, Any]]:
    models = ["fake-chat", "fake-embed"]
    return [
        {"name": "sim", "base_url": first.url, "models": models, "max_concurrency": 2},
        {"name": "backup", "base_url": backup.url, "models": models, "role": "backup"},
        {
            "name": "small",
            "base_url": degraded.url,
            "models": ["small-chat"],
            "role": "degraded",
            "stands_in_for": ["fake-chat"],
        },
    ]


def a_request(model: str = "fake-chat", within_s: float | None = None, **more: Any) -> NewRequest:
    now = clock.now()
    until_at = None if within_s is None else now + timedelta(seconds=within_s)
    return NewRequest(uuid.uuid4(), "main", "chat", model, now, deadline_at=until_at, **more)


def ask(one: Rig, within_s: float | None = None) -> Any:
    return one.wiring.interactive.run(a_request(within_s=within_s), HELLO)


def calls(one: Rig, backup: Served, degraded: Served) -> tuple[int, int, int]:
    return tuple(each.ledger()["requests"] for each in (one.endpoint, backup, degraded))  # type: ignore[return-value]


ROW = "SELECT state, endpoint, role, answered_model, error_code FROM interactive_requests"


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 500},
        {"kind": "status", "status": 503},
        {"kind": "status", "status": 429, "retry_after": "90"},
        {"kind": "status", "status": 401},
        {"kind": "bad_json"},
    ],
)
def test_a_failing_primary_is_followed_by_the_backup(
    three: Rig, servers: tuple[Served, Served], fault: dict[str, Any]
) -> None:
    three.endpoint.order(fault)
    answered = three.wiring.interactive.run(
        a_request("fake-embed"), EmbedRequest("fake-embed", ("a text",))
    )
    assert (answered.endpoint, answered.choice.role, answered.degraded) == (
        "backup",
        "backup",
        False,
    )
    assert three.rows(ROW) == [("done", "backup", "backup", "fake-embed", None)]
    assert calls(three, *servers) == (1, 1, 0)


def test_a_call_that_failed_before_another_answered_counts_where_it_failed(three: Rig) -> None:
    three.endpoint.order({"kind": "status", "status": 500})
    ask(three)
    ask(three)
    three.settle()
    fared = {one.name: one for one in three.wiring.endpoints.listed()}
    assert (fared["sim"].finished, fared["sim"].failed) == (0, 2)
    assert (fared["backup"].finished, fared["backup"].failed) == (2, 0)

    report = three.wiring.reporting.report(600)
    told = {one.name: (one.finished, one.failed, one.failure_rate) for one in report.endpoints}
    assert (told["sim"], told["backup"]) == ((0, 2, 1.0), (2, 0, 0.0))
    assert [(one.whose, one.code, one.count) for one in report.errors] == [
        ("detour", "server_error", 2)
    ]
    three.execute("UPDATE detours SET ended_at = ended_at - interval '3 days'")
    three.wiring.retention.prune()
    assert three.one("SELECT count(*) FROM detours") == 0


def test_a_search_goes_where_a_person_s_request_goes(three: Rig) -> None:
    three.work(three.submit([f"text number {n}" for n in range(20)]).job.id)
    three.endpoint.order({"kind": "status", "status": 500})
    assert three.wiring.searching.search("docs", "text number 7", 1)[0].key == "k7"
    assert three.rows(ROW) == [("done", "backup", "backup", "fake-embed", None)]


def test_a_degraded_endpoint_answers_with_its_own_model_and_says_so(
    three: Rig, servers: tuple[Served, Served]
) -> None:
    three.endpoint.order({"kind": "status", "status": 500})
    servers[0].order({"kind": "status", "status": 500})
    answered = ask(three)
    assert isinstance(answered.reply, ChatReply)
    assert (answered.endpoint, answered.reply.model, answered.degraded) == (
        "small",
        "small-chat",
        True,
    )
    assert three.rows(ROW) == [("done", "small", "degraded", "small-chat", None)]


def test_each_is_tried_once_and_the_last_failure_is_told(
    three: Rig, servers: tuple[Served, Served]
) -> None:
    three.endpoint.order({"kind": "status", "status": 500})
    servers[0].order({"kind": "status", "status": 500})
    servers[1].order({"kind": "status", "status": 503})
    with pytest.raises(errors.Overloaded):
        ask(three)
    assert calls(three, *servers) == (1, 1, 1)
    assert three.rows(ROW) == [("failed", "small", "degraded", "small-chat", "overloaded")]
    in_flight = "SELECT count(*) FROM interactive_requests WHERE state IN ('queued', 'running')"
    assert three.one(in_flight) == 0


def test_what_the_request_did_wrong_is_asked_of_nobody_else(
    three: Rig, servers: tuple[Served, Served]
) -> None:
    three.endpoint.order({"kind": "reject_text", "text": "Hello"})
    with pytest.raises(errors.BadRequest):
        ask(three)
    assert calls(three, *servers) == (1, 0, 0)


def test_a_dead_primary_costs_people_nothing_but_a_moment(
    rig: MakeRig, endpoint: Served, servers: tuple[Served, Served]
) -> None:
    dead = declared(endpoint, *servers)
    dead[0]["base_url"] = "http://127.0.0.1:1/v1"
    one = rig(endpoints=dead, batch={"retry_base_s": 120.0})
    began = time.monotonic()
    assert [ask(one).endpoint for _ in range(4)] == ["backup"] * 4
    assert time.monotonic() - began < 30  # Of the minutes for which it is left alone.
    assert one.one("SELECT refusals FROM endpoints WHERE name = 'sim'") == 1


def test_retry_after_cools_the_primary_for_every_process(
    rig: MakeRig, three: Rig, endpoint: Served, servers: tuple[Served, Served]
) -> None:
    endpoint.order({"kind": "status", "status": 429, "retry_after": "60"})
    ask(three)
    other = rig(endpoints=declared(endpoint, *servers), declare=False)
    ask(other)
    assert calls(three, *servers) == (1, 2, 0)


def test_a_primary_full_past_the_bound_is_left_for_the_backup(
    three: Rig, servers: tuple[Served, Served]
) -> None:
    three.endpoint.order({"kind": "delay", "delay_s": 4, "path": "chat"})
    full = [threading.Thread(target=ask, args=(three,)) for _ in range(2)]
    for thread in full:
        thread.start()
    until(lambda: three.endpoint.ledger()["requests"] == 2, 5, "the calls")

    began = time.monotonic()
    assert ask(three, within_s=3).endpoint == "backup"
    waited_s = time.monotonic() - began
    assert 0.75 <= waited_s < 2.5, "a quarter of the three seconds it had"
    for thread in full:
        thread.join(10)


def test_a_primary_that_says_nothing_leaves_time_for_the_backup(
    three: Rig, servers: tuple[Served, Served]
) -> None:
    three.endpoint.order({"kind": "hang", "path": "chat", "remaining": 1})
    began = time.monotonic()
    assert ask(three, within_s=3).endpoint == "backup"
    assert time.monotonic() - began > 1.4, "half of what it had"
    until(lambda: _outcomes(three.endpoint).get("hung_up") == 1, 3, "the end of the first call")


def test_an_answer_that_has_begun_is_not_asked_for_again(
    three: Rig, servers: tuple[Served, Served]
) -> None:
    three.endpoint.order({"kind": "drop", "path": "chat"})
    with pytest.raises(errors.ConnectionFailed):
        ask(three)
    assert calls(three, *servers) == (1, 0, 0)


def test_without_failover_the_same_request_fails(
    three: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant: nothing moves on."""
    assert moves_on(errors.ServerFault("x"))
    monkeypatch.setattr("app.services.people.lane.moves_on", lambda _: False)
    three.endpoint.order({"kind": "status", "status": 500})
    with pytest.raises(errors.ServerFault):
        ask(three)


def test_without_a_database_a_failing_primary_is_followed_by_the_backup(
    rig: MakeRig, endpoint: Served, servers: tuple[Served, Served]
) -> None:
    endpoint.order({"kind": "status", "status": 500})
    dead = rig(
        endpoints=declared(endpoint, *servers),
        database={"url": "postgresql://nobody@127.0.0.1:1/none"},
        declare=False,
    )
    assert ask(dead).endpoint == "backup"


def test_a_pool_that_is_out_of_service_is_said_before_the_deadline(
    three: Rig, servers: tuple[Served, Served]
) -> None:
    three.execute("UPDATE endpoints SET cool_until = now() + interval '1 hour'")
    began = time.monotonic()
    with pytest.raises(errors.ConnectionFailed, match=r"is in service; .* dropped unstarted"):
        ask(three, within_s=2)  # At its deadline it would be an EndpointTimeout.
    assert time.monotonic() - began > 0.4
    assert three.rows("SELECT state, error_code FROM interactive_requests") == [
        ("dropped", "connection")
    ]
    assert calls(three, *servers) == (0, 0, 0)


def test_a_request_whose_deadline_has_passed_is_never_sent(
    three: Rig, servers: tuple[Served, Served]
) -> None:
    with pytest.raises(errors.EndpointTimeout, match=r"deadline passed.*dropped unstarted"):
        ask(three, within_s=-0.1)
    assert three.rows("SELECT state, error_code, deadline_at FROM interactive_requests")[0][:2] == (
        "dropped",
        "timeout",
    )
    assert calls(three, *servers) == (0, 0, 0)


def test_the_deadline_bounds_the_call(three: Rig, servers: tuple[Served, Served]) -> None:
    for one in (three.endpoint, *servers):
        one.order({"kind": "hang", "path": "chat"})
    began = time.monotonic()
    with pytest.raises(errors.EndpointTimeout):
        ask(three, within_s=1)
    assert time.monotonic() - began < 30  # Of the two minutes that a call may take.


def _outcomes(served: Served) -> dict[str, int]:
    return {one["outcome"]: one["count"] for one in served.ledger()["outcomes"]}
