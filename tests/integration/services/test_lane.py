"""The lane: few round trips however many ask, streams, hang-ups, and a database that is slow."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from app import clock, errors
from app.domain.inference import ChatReply, ChatRequest, Message
from app.domain.requests import NewRequest
from app.services.people.tickets import Answered
from tests.processes import until
from tests.rig import MakeRig, Rig
from tests.trips import Trips, trips

HELLO = ChatRequest("fake-chat", (Message("user", "Hello there. How are you?"),), 8)
LONG = ChatRequest("fake-chat", (Message("user", "Tell it. At length. " * 400),), 800)


def a_request(priority: int = 0, ago_s: float = 0.0) -> NewRequest:
    asked_at = clock.now() - timedelta(seconds=ago_s)
    return NewRequest(uuid.uuid4(), "main", "chat", "fake-chat", asked_at, priority=priority)


def ask(one: Rig, request: NewRequest | None = None) -> Any:
    return one.wiring.interactive.run(request or a_request(), HELLO)


@pytest.fixture
def counted(migrated_url: str, rig: MakeRig) -> Iterator[tuple[Rig, Trips]]:
    """A rig whose way to the database is counted; its lane has made its connections and seen the
    pool."""
    with trips(migrated_url) as relay:
        one = rig(database={"url": relay.url, "connections": 30})
        for _ in range(3):  # A statement is prepared the second time.
            ask(one)
            one.settle()
        yield one, relay
        one.close()


def test_a_lone_request_is_one_round_trip_and_its_end_another(counted: tuple[Rig, Trips]) -> None:
    one, relay = counted
    before = relay.count
    ask(one)
    assert relay.count - before <= 2  # Its end may be under way already.
    one.wiring.interactive.settle()
    assert relay.count - before == 2


def test_a_hundred_a_second_take_about_a_round_trip_each(
    counted: tuple[Rig, Trips],
) -> None:
    """Exactly how many depends on who comes while a group is out; one by one they would be 300."""
    one, relay = counted
    before, asked = relay.count, 150

    async def paced() -> None:
        began, asking = time.monotonic(), []
        for number in range(asked):
            await asyncio.sleep(max(0.0, began + number / 100 - time.monotonic()))
            asking.append(asyncio.create_task(one.wiring.interactive.call(a_request(), HELLO)))
        await asyncio.gather(*asking)

    asyncio.run(paced())
    one.wiring.interactive.settle()
    assert relay.count - before <= 1.3 * asked


def test_those_who_come_together_are_one_group_of_two_round_trips_at_most(
    counted: tuple[Rig, Trips],
) -> None:
    one, relay = counted
    before = relay.count

    async def together() -> None:
        calls = (one.wiring.interactive.call(a_request(), HELLO) for _ in range(30))
        await asyncio.gather(*calls)

    asyncio.run(together())
    one.wiring.interactive.settle()
    assert relay.count - before <= 20  # 30 starts, first tokens and ends.
    assert one.one("SELECT count(*) FROM interactive_requests WHERE state = 'done'") == 33


def test_who_waits_costs_looks_and_not_a_lock_each(counted: tuple[Rig, Trips]) -> None:
    one, relay = counted
    one.execute('UPDATE throttle_limits SET tuned = \'{"total": 2, "batch_max": 1}\'')
    hold_places(one, 2)
    with ThreadPoolExecutor(20) as threads:
        asked = [threads.submit(ask, one) for _ in range(20)]
        queued = "SELECT count(*) FROM interactive_requests WHERE state = 'queued'"
        until(lambda: one.one(queued) == 20, 10, "the line")
        before, began = relay.count, time.monotonic()
        until(lambda: time.monotonic() > began + 0.5, 5)
        # At most one look in 20 ms for all of them, and this test's own look at the clock.
        assert relay.count - before <= 40
        release(one)
        assert all(future.result(30) for future in asked)


def hold_places(one: Rig, count: int) -> None:
    one.execute(
        "INSERT INTO interactive_requests (id, pool, task_type, model, state, submitted_at,"
        " lease_until, endpoint, user_id) SELECT gen_random_uuid(), 'main', 'chat', 'm', 'running',"
        " now(), now() + interval '1 minute', 'sim', 'holds' FROM generate_series(1, :n)",
        n=count,
    )


def release(one: Rig, count: int = 100) -> None:
    one.execute(
        "UPDATE interactive_requests SET state = 'done', finished_at = now(), lease_until = NULL"
        " WHERE id IN (SELECT id FROM interactive_requests WHERE user_id = 'holds'"
        " AND state = 'running' LIMIT :n)",
        n=count,
    )


def test_two_processes_serve_their_people_in_one_order(rig: MakeRig) -> None:
    settings: dict[str, Any] = {"pools": [{"name": "main", "total": 2, "batch_max": 1}]}
    lanes = [rig(**settings), rig(declare=False, **settings)]
    hold_places(lanes[0], 2)
    requests = [a_request(priority=n % 3, ago_s=(n * 7) % 10) for n in range(12)]
    with ThreadPoolExecutor(12) as threads:
        asked = [threads.submit(ask, lanes[n % 2], one) for n, one in enumerate(requests)]
        queued = "SELECT count(*) FROM interactive_requests WHERE state = 'queued'"
        until(lambda: lanes[0].one(queued) == 12, 10, "the line")
        release(lanes[0], 1)  # They go one by one, through one place.
        for future in asked:
            future.result(30)
    served = lanes[0].rows(
        "SELECT id FROM interactive_requests WHERE user_id IS NULL ORDER BY started_at"
    )
    order = sorted(requests, key=lambda one: (-one.priority, one.submitted_at, one.id))
    assert [row.id for row in served] == [one.id for one in order]


def test_an_answer_is_streamed_as_it_comes(rig: MakeRig) -> None:
    one = rig()

    async def listen() -> list[str | Answered]:
        return [piece async for piece in one.wiring.interactive.stream(a_request(), HELLO)]

    *pieces, last = asyncio.run(listen())
    assert isinstance(last, Answered)
    assert isinstance(last.reply, ChatReply)
    assert len(pieces) > 1
    assert "".join(map(str, pieces)) == last.reply.text
    assert one.rows("SELECT state FROM interactive_requests") == [("done",)]


def test_an_error_of_a_stream_is_raised_where_it_is_listened_to(rig: MakeRig) -> None:
    one = rig()
    one.endpoint.order({"kind": "status", "status": 503, "path": "chat"})

    async def listen() -> None:
        async for _ in one.wiring.interactive.stream(a_request(), HELLO):
            pass

    with pytest.raises(errors.Overloaded):
        asyncio.run(listen())


@pytest.mark.parametrize("way", ["stream", "call"])
def test_who_hangs_up_has_the_call_closed_and_the_place_freed(rig: MakeRig, way: str) -> None:
    one = rig()
    if way == "call":
        one.endpoint.order({"kind": "hang", "path": "chat", "remaining": 1})
    else:
        one.endpoint.order({"kind": "slow", "factor": 100})

    async def hang_up() -> None:
        if way == "stream":
            stream = one.wiring.interactive.stream(a_request(), LONG)
            await anext(stream)
            await stream.aclose()
            return
        calling = asyncio.ensure_future(one.wiring.interactive.call(a_request(), HELLO))
        while one.endpoint.ledger()["requests"] == 0:
            await asyncio.sleep(0.01)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)

    asyncio.run(hang_up())
    ended = "SELECT state, error_code FROM interactive_requests"
    until(lambda: one.rows(ended) == [("failed", "abandoned")], 10, "the row's end")
    until(lambda: hung_up(one) == 1, 10, "the end of the connection")


def hung_up(one: Rig) -> int:
    outcomes = one.endpoint.ledger()["outcomes"]
    return sum(each["count"] for each in outcomes if each["outcome"] == "hung_up")


def test_a_database_slower_than_the_lanes_patience_makes_nobody_wait_and_is_used_again(
    counted: tuple[Rig, Trips], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, relay = counted
    monkeypatch.setattr("app.services.people.admission.PATIENCE_S", 0.3)
    monkeypatch.setattr("app.services.people.admission._HEAL_S", 0.1)
    recorded = "SELECT count(*) FROM interactive_requests"
    known = one.one(recorded)
    relay.flows.clear()
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: ask(one), range(8)))
    assert all(isinstance(answered.reply, ChatReply) for answered in answers)
    relay.flows.set()

    def is_recorded() -> bool:
        ask(one)
        return bool(one.one(recorded) > known + 8)

    until(is_recorded, 20, "rows again")
    # What the held back group may have started is not counted for ever.
    open_ones = "SELECT count(*) FROM interactive_requests WHERE state IN ('queued', 'running')"
    until(lambda: one.one(open_ones) == 0, 20, "the ends")


def test_without_a_database_no_more_are_sent_at_once_than_the_pool_carries(rig: MakeRig) -> None:
    one = rig()
    dead = rig(
        database={"url": "postgresql://nobody@127.0.0.1:1/none"},
        pools=[{"name": "main", "total": 3, "batch_max": 1}],
        declare=False,
    )
    one.endpoint.order({"kind": "delay", "delay_s": 0.1, "path": "chat"})
    with ThreadPoolExecutor(9) as threads:
        assert all(threads.map(lambda _: ask(dead), range(9)))
    assert one.endpoint.ledger()["most_in_flight"] <= 3


def test_a_request_that_is_delivered_again_is_its_new_workers(rig: MakeRig) -> None:
    """The one that had it stood still meanwhile: what it writes at last changes nothing."""
    first, second = rig(), rig(declare=False)
    request = a_request()
    first.endpoint.order({"kind": "hang", "path": "chat", "remaining": 1})

    def ask_in_vain() -> None:
        with pytest.raises(errors.Abandoned):
            ask(first, request)

    asking = threading.Thread(target=ask_in_vain)
    asking.start()
    until(lambda: first.endpoint.ledger()["requests"] == 1, 10, "the call")
    assert ask(second, request).endpoint == "sim"
    second.settle()
    first.wiring.interactive.cancel(request.id)
    asking.join(10)
    first.settle()
    ended = second.rows("SELECT state, error_code, worker FROM interactive_requests")
    assert ended == [("done", None, second.wiring.worker)]
