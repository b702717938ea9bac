"""Priority, the higher first and then the older: in our rows and in both brokers."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable

import pytest
from celery import Celery
from kombu import Connection, Queue

from app import clock
from app.worker.queues import broker_priority
from tests.integration.worker.conftest import BROKERS
from tests.processes import Processes
from tests.rig import MakeRig, Rig
from tests.waiting import until

PRIORITIES = random.Random(7).sample(range(10), 10)


@pytest.fixture
def one(rig: MakeRig) -> Rig:
    return rig()


def strangers(url: str) -> Celery:
    """The app of somebody who has nothing of ours and tells the broker nothing of priority."""
    app = Celery("stranger", broker=url, set_as_current=False)
    on_rabbitmq = {"exchange": "interactive", "routing_key": "interactive"}
    sent_by = on_rabbitmq if url.startswith("amqp") else {"queue": "interactive"}
    app.conf.task_routes = {"giveway.*": sent_by}
    app.conf.task_ignore_result = True
    return app


def ask(app: Celery, priority: int, told: int | None) -> uuid.UUID:
    sent = app.send_task(
        "giveway.interactive.chat",
        kwargs={
            "prompt": "Say something.",
            "model": "fake-chat",
            "max_tokens": 4,
            "priority": priority,
            "submitted_at": clock.now().timestamp(),
        },
        priority=told,
        expires=300,
    )
    return uuid.UUID(sent.id)


def served(
    one: Rig, stack: Processes, told: Callable[[int], int] | None, threads: int
) -> list[int]:
    """The priorities in the order of their calls, of ten that came while the place was taken.

    `told` gives what the broker is told; None: a stranger sends them.
    """
    url = stack.environment["GIVEWAY_BROKER__URL"]
    stack.worker("interactive", "-c", str(threads)).ready()
    app = strangers(url) if told is None else one.with_broker(url)
    one.endpoint.order({"kind": "hang", "path": "chat", "remaining": 1})
    first = ask(app, 0, None)
    until(lambda: one.endpoint.ledger()["requests"] == 1, 10, "the first call")
    for priority in PRIORITIES:
        ask(app, priority, None if told is None else told(priority))
    if threads > len(PRIORITIES):
        queued = "SELECT count(*) FROM interactive_requests WHERE state = 'queued'"
        until(lambda: one.one(queued) == len(PRIORITIES), 10, "the line")
    one.wiring.interactive.cancel(first)  # Whose place is free now.
    done = "SELECT count(*) FROM interactive_requests WHERE state = 'done'"
    until(lambda: one.one(done) == len(PRIORITIES), 20, "the answers")
    app.close()
    rows = one.rows("SELECT priority FROM interactive_requests ORDER BY started_at OFFSET 1")
    return [priority for (priority,) in rows]


@pytest.mark.parametrize("stack", BROKERS, indirect=True)
def test_who_waits_for_a_place_is_served_by_priority_whatever_the_broker_knows(
    stack: Processes, one: Rig
) -> None:
    assert served(one, stack, None, threads=16) == sorted(PRIORITIES, reverse=True)


@pytest.mark.parametrize("stack", BROKERS, indirect=True)
def test_who_waits_at_the_broker_comes_out_by_priority(stack: Processes, one: Rig) -> None:
    """On RabbitMQ where somebody has declared the queue with priorities: it is taken as it is."""
    url = stack.environment["GIVEWAY_BROKER__URL"]
    if url.startswith("amqp"):
        with Connection(url) as connection:
            connection.channel().queue_delete("interactive")
            Queue("interactive", max_priority=9)(connection.channel()).declare()
    order = served(one, stack, lambda priority: broker_priority(priority, url), threads=1)
    assert order == sorted(PRIORITIES, reverse=True)


@pytest.mark.parametrize("stack", ["valkey"], indirect=True)
def test_our_numbers_told_to_valkey_as_they_are_would_turn_the_order_round(
    stack: Processes, one: Rig
) -> None:
    """The mutant: no mapping."""
    assert served(one, stack, lambda priority: priority, threads=1) == sorted(PRIORITIES)
