"""Plain Celery whose task makes the same call: what Giveway is measured against.

One client a process, a pool of threads, Celery's defaults. The task has the name of Giveway's, so
that the same caller asks either. `celery -A benchmarks.people.plain worker -Q interactive`, with
PLAIN_BROKER and PLAIN_ENDPOINT.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from celery import Celery
from kombu import Queue

from app.domain.inference import ChatRequest, Message
from app.inference.wire import Wire
from app.worker.queues import INTERACTIVE

_CALL_S = 30.0


def made(broker: str) -> Celery:
    """The app, for a worker or for a caller."""
    app = Celery("plain", broker=broker, backend=broker, set_as_current=False)
    app.conf.update(
        result_expires=600,
        task_queues=[Queue(INTERACTIVE)],
        task_default_queue=INTERACTIVE,
        broker_connection_retry_on_startup=True,
    )
    return app


app = made(os.environ.get("PLAIN_BROKER", "redis://127.0.0.1:1/0"))


@cache
def _wire() -> Wire:
    return Wire(os.environ["PLAIN_ENDPOINT"])


@app.task(name="giveway.interactive.chat")  # type: ignore[untyped-decorator]
def chat(prompt: str, model: str, max_tokens: int, **_: Any) -> dict[str, Any]:
    """Answer somebody."""
    request = ChatRequest(model, (Message("user", prompt),), max_tokens)
    reply = _wire().chat(request, deadline_s=_CALL_S)
    return {"text": reply.text, "model": reply.model, "endpoint": "bench"}
