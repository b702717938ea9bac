"""Plain Celery, as one would build it well: what Giveway is measured against.

Threads, prefetch 1, late acknowledgement. A batch task is one micro-batch: one request with the
same client to the same endpoint, then one transaction that stores vectors or result by the same
COPY, harmless when it is done twice. People's tasks stream a chat. Nothing limits batch but the
number of its workers.

`celery -A benchmarks.throttle.plain worker -Q …`, with PLAIN_BROKER, PLAIN_DATABASE and
PLAIN_ENDPOINT.
"""

from __future__ import annotations

import os
import time
from functools import cache
from hashlib import blake2b
from typing import Any

from celery import Celery

from app.domain.chunks import Lease
from app.domain.inference import ChatRequest, EmbedRequest, Message
from app.domain.results import ItemResult, Status
from app.inference.wire import Wire
from app.storage.database import Database
from app.storage.result_store import ResultStore
from app.storage.vector_store import Embedding, VectorStore

PEOPLE_FIRST, BATCH_LAST = 0, 9
"""Priorities count the other way round on Redis: 0 is served first."""
SEPARATOR = ":"
_CALL_S = 60.0


def made(broker: str) -> Celery:
    """The app, for a worker or for a sender."""
    app = Celery("plain", broker=broker, backend=broker, set_as_current=False)
    app.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        task_ignore_result=True,
        result_expires=600,
        task_serializer="json",
        accept_content=["json"],
        task_create_missing_queues=True,
        broker_connection_retry_on_startup=True,
        broker_transport_options={
            "priority_steps": list(range(10)),
            "sep": SEPARATOR,
            "queue_order_strategy": "priority",
            "visibility_timeout": 600,
        },
    )
    return app


app = made(os.environ.get("PLAIN_BROKER", "redis://127.0.0.1:1/0"))


@cache
def _wire() -> Wire:
    return Wire(os.environ["PLAIN_ENDPOINT"])


@cache
def _database() -> Database:
    return Database(os.environ["PLAIN_DATABASE"], connections=16, name="plain")


@app.task(name="plain.chat", ignore_result=False)  # type: ignore[untyped-decorator]
def chat(prompt: str, model: str, max_tokens: int, submitted_at: float) -> dict[str, Any]:
    """Answer somebody. Times in the reply are milliseconds since `submitted_at`."""
    first: list[float] = []
    reply = _wire().chat(
        ChatRequest(model, (Message("user", prompt),), max_tokens),
        deadline_s=_CALL_S,
        on_first_token=lambda: first.append((time.time() - submitted_at) * 1000),
    )
    return {
        "text": reply.text,
        "completion_tokens": reply.usage.completion_tokens,
        "first_token_ms": first[0] if first else None,
        "total_ms": (time.time() - submitted_at) * 1000,
    }


@app.task(name="plain.embed")  # type: ignore[untyped-decorator]
def embed(collection: int, model: str, first: int, keyed: list[tuple[str, str]]) -> None:
    """Embed one micro-batch and store it."""
    texts = tuple(text for _, text in keyed)
    reply = _wire().embed(EmbedRequest(model, texts), deadline_s=_CALL_S)
    rows = [
        Embedding(key, blake2b(text.encode(), digest_size=16).digest(), first + at)
        for at, (key, text) in enumerate(keyed)
    ]
    with _database().transaction() as tx:
        VectorStore(tx).write(collection, 0, rows, reply.vectors)


@app.task(name="plain.generate")  # type: ignore[untyped-decorator]
def generate(job: int, number: int, model: str, prompt: str, max_tokens: int) -> None:
    """Ask for one answer and store it as Giveway stores a result."""
    request = ChatRequest(model, (Message("user", prompt),), max_tokens)
    reply = _wire().chat(request, deadline_s=_CALL_S)
    output = {"text": reply.text, "finish_reason": reply.finish_reason}
    result = ItemResult(number, Status.DONE, tokens=reply.usage.total_tokens, output=output)
    lease = Lease(job, number, 0, number, number, None, 0, 0, "simulated")
    with _database().transaction() as tx:
        ResultStore(tx).record(lease, [result])
