"""Interactive tasks, asked for by a Celery program that knows nothing of us."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from datetime import timedelta

import pytest
from celery import Celery
from celery.exceptions import TaskRevokedError

from app import clock
from app.domain.throttle.values import PolicySettings
from app.storage.request_store import RequestStore
from tests.processes import Processes, watched
from tests.rig import MakeRig
from tests.waiting import until

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
    one = rig()
    done = "SELECT count(*) FROM interactive_requests WHERE state = 'done'"
    until(lambda: one.one(done) == 1, 10, "the row's end, which is written with others")
    row = one.rows(
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


def test_a_message_that_expired_before_a_worker_took_it_counts_as_one_who_waited_in_vain(
    processes: Processes, producer: Celery, rig: MakeRig
) -> None:
    one = rig()
    asked_at = clock.now()
    asked = {
        "prompt": SECRET,
        "model": "fake-chat",
        "max_tokens": 8,
        "user": "ann",
        "submitted_at": asked_at.timestamp(),
    }
    sent = [
        producer.send_task(
            "giveway.interactive.chat", kwargs=asked, queue="interactive", expires=1.0
        )
        for _ in range(3)
    ]
    bad = producer.send_task(
        "giveway.interactive.chat", kwargs={"model": "gpt-9"}, queue="interactive", expires=1.0
    )
    sent_at = clock.now()
    until(lambda: clock.now() > sent_at + timedelta(seconds=1.5), 10, "the end of their time")
    started_at = clock.now()
    worker = processes.worker("interactive").ready()

    for result in (*sent, bad):
        with pytest.raises(TaskRevokedError, match="expired"):
            result.get(timeout=30)
    until(lambda: one.one("SELECT count(*) FROM interactive_requests") == 3, 30, "the rows")
    facts = "state, error_code, pool, task_type, user_id, started_at, finished_at < submitted_at"
    rows = one.rows(f"SELECT DISTINCT {facts} FROM interactive_requests")
    assert rows == [("dropped", "timeout", "main", "chat", "ann", None, False)]
    # As of the moment at which it expired, however late the worker came.
    assert one.one("SELECT max(finished_at) FROM interactive_requests") < started_at
    assert one.endpoint.ledger()["requests"] == 0
    with one.database.transaction() as tx:
        reading = RequestStore(tx).reading("main", PolicySettings(window_s=3600), clock.now())
    assert (reading.failed, reading.misses, reading.completions_per_s) == (3, 3, 0)
    people = one.wiring.reporting.report(3600).pools[0].people
    assert (people.requests, people.failed, people.on_target) == (3, 3, 0.0)
    assert "nobody else may read" not in worker.said


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
