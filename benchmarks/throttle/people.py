"""The caller's side, the same for every contender: ask through Celery when it is time, and listen.

Open loop: nobody waits for another's answer. A wait counts from the moment at which the request
was *due* to the moment at which its result is there for the caller, so that a late sender or a slow
broker hides nothing. One thread sends; one listens to the result backend's own notices, which is
how Celery's `result.get()` learns of them too.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import redis
from celery import Celery

from benchmarks.throttle.corpus import CHAT
from benchmarks.throttle.loads import Arrival

PATIENCE_S = 15.0
"""How long one waits for an answer before it counts as none."""
_KEY = "celery-task-meta-"


@dataclass(frozen=True, slots=True)
class Answer:
    """One person's. `latency_ms` None: no answer, or an error. `late_ms`: how late it was sent."""

    due_s: float
    tokens: int
    latency_ms: float | None
    first_token_ms: float | None = None
    per_token_ms: float | None = None
    late_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Way:
    """How a contender is asked."""

    app: Celery
    task: str
    queue: str
    options: Mapping[str, Any]


class Listener:
    """Every result as it comes: when, and what. One subscription for all."""

    def __init__(self, broker_url: str) -> None:
        self.came: dict[str, tuple[float, dict[str, Any]]] = {}
        self._client = redis.Redis.from_url(broker_url)
        self._notices = self._client.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
        self._notices.psubscribe(f"{_KEY}*")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._stop.set()
        self._thread.join(5)
        self._notices.close()
        self._client.close()

    def _listen(self) -> None:
        while not self._stop.is_set():
            notice = self._notices.get_message(timeout=0.5)
            if notice is None:
                continue
            now = time.time()
            told = json.loads(notice["data"])
            if told["status"] in ("SUCCESS", "FAILURE", "REVOKED"):
                self.came.setdefault(told["task_id"], (now, told))


def ask_all(
    way: Way, listener: Listener, arrivals: Sequence[Arrival], start_at: float
) -> list[Answer]:
    """Everybody's answers. `start_at` is the epoch second from which arrivals count.

    Returns when all have their answer, or the last one's patience is over.
    """
    sent: list[tuple[str, Arrival, float]] = []
    for arrival in arrivals:
        time.sleep(max(0.0, start_at + arrival.due_s - time.time()))
        late_ms = (time.time() - start_at - arrival.due_s) * 1000
        name = str(uuid.uuid4())
        sent.append((name, arrival, late_ms))
        way.app.send_task(
            way.task,
            kwargs={
                "prompt": arrival.prompt,
                "model": CHAT,
                "max_tokens": arrival.tokens,
                "submitted_at": start_at + arrival.due_s,
            },
            task_id=name,
            queue=way.queue,
            expires=PATIENCE_S,
            retry=False,
            **way.options,
        )
    for name, arrival, _ in sent:
        leaves_at = start_at + arrival.due_s + PATIENCE_S
        while name not in listener.came and time.time() < leaves_at:
            time.sleep(0.01)
    answers = [
        _answer(arrival, late_ms, start_at + arrival.due_s, listener.came.get(name))
        for name, arrival, late_ms in sent
    ]
    listener.came.clear()
    return answers


def _answer(
    arrival: Arrival, late_ms: float, due_at: float, came: tuple[float, dict[str, Any]] | None
) -> Answer:
    if came is None or came[1]["status"] != "SUCCESS":
        return Answer(arrival.due_s, arrival.tokens, None, late_ms=late_ms)
    at, told = came
    reply = told["result"]
    latency_ms, first_ms = (at - due_at) * 1000, reply["first_token_ms"]
    tokens = reply["completion_tokens"]
    # Giveway's worker counts from when it got the message, plain's from `submitted_at`: what lies
    # between first and last token is the same on both clocks.
    streaming_ms = None if first_ms is None else reply["total_ms"] - first_ms
    per_token_ms = streaming_ms / (tokens - 1) if streaming_ms is not None and tokens > 1 else None
    first_token_ms = None if streaming_ms is None else latency_ms - streaming_ms
    return Answer(arrival.due_s, tokens, latency_ms, first_token_ms, per_token_ms, late_ms)
