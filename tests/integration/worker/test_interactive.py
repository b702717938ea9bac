"""Interactive tasks, asked for by a Celery program that knows nothing of us."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator

import pytest
from celery import Celery

from tests.processes import Processes, until, watched
from tests.rig import MakeRig

SECRET = "the prompt that nobody else may read"


@pytest.fixture
def producer(fresh_broker_url: str) -> Iterator[Celery]:
    """Somebody else's app."""
    app = Celery(
        "stranger", broker=fresh_broker_url, backend=fresh_broker_url, set_as_current=False
    )
    app.conf.task_send_sent_event = False
    yield app
    app.close()
    app.backend.result_consumer.stop()
    app.backend.client.connection_pool.disconnect()


def test_any_celery_producer_gets_its_answer(
    processes: Processes, producer: Celery, rig: MakeRig
) -> None:
    processes.worker("interactive").ready()
    sent = producer.send_task(
        "giveway.interactive.chat",
        kwargs={
            "prompt": "Say something. Anything will do.",
            "model": "fake-chat",
            "max_tokens": 16,
        },
        queue="interactive",
    )
    reply = sent.get(timeout=20)

    assert reply["completion_tokens"] == 16
    assert len(reply["text"].split()) > 3
    row = rig().rows(
        "SELECT id, state, submitted_at <= started_at, started_at <= first_token_at,"
        " first_token_at <= finished_at, completion_tokens FROM interactive_requests"
    )
    assert row == [(uuid.UUID(sent.id), "done", True, True, True, 16)]


def test_embeddings_come_back_as_numbers(processes: Processes, producer: Celery) -> None:
    processes.worker("interactive").ready()
    reply = producer.send_task(
        "giveway.interactive.embed",
        kwargs={"texts": ["one", "two"], "model": "fake-embed"},
        queue="interactive",
    ).get(timeout=20)
    assert [len(vector) for vector in reply["vectors"]] == [256, 256]


def test_a_wrong_model_is_an_error_that_lists_the_right_ones(
    processes: Processes, producer: Celery
) -> None:
    processes.worker("interactive").ready()
    with pytest.raises(Exception, match="'gpt-9'; known: fake-chat, fake-embed"):
        producer.send_task(
            "giveway.interactive.chat",
            kwargs={"prompt": "hello", "model": "gpt-9"},
            queue="interactive",
        ).get(timeout=20)


def test_no_prompt_and_no_answer_reaches_events_or_logs(
    processes: Processes, producer: Celery, rig: MakeRig
) -> None:
    worker = processes.worker("interactive", "-E").ready()
    with watched(producer) as events:
        reply = producer.send_task(
            "giveway.interactive.chat",
            kwargs={"prompt": f"{SECRET}. {SECRET}.", "model": "fake-chat", "max_tokens": 16},
            queue="interactive",
        ).get(timeout=20)
        until(lambda: any(e["type"] == "task-succeeded" for e in events), 10, "the event")

    assert "prompt" in reply["text"]  # the answer is an extract of it, so it would show
    received = next(e for e in events if e["type"] == "task-received")
    assert "fake-chat" in received["kwargs"]
    for seen in (*map(str, events), worker.said):
        assert "nobody else may read" not in seen
    one = rig()
    for (table,) in one.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
        dumped = one.one(f"SELECT coalesce(string_agg(t::text, ' '), '') FROM {table} t")
        assert "nobody else may read" not in dumped


def test_an_ended_worker_leaves_no_request_behind(
    processes: Processes, producer: Celery, rig: MakeRig
) -> None:
    one = rig()
    worker = processes.worker("interactive").ready()
    one.endpoint.order({"kind": "hang", "path": "chat", "remaining": 1})
    producer.send_task(
        "giveway.interactive.chat",
        kwargs={"prompt": "hello", "model": "fake-chat"},
        queue="interactive",
    )
    running = "SELECT count(*) FROM interactive_requests WHERE state = 'running'"
    until(lambda: one.one(running) == 1, 10, "the call")
    worker.send(signal.SIGKILL)
    processes.worker("interactive").ready()
    until(lambda: one.one(running) == 0, 10, "the place's return")
    assert one.one("SELECT error_code FROM interactive_requests") == "worker_lost"
