"""An interactive worker by hand: takes people's messages from a broker, answers when it is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

from celery import Celery
from kombu import Consumer
from kombu.message import Message

from app.worker.queues import INTERACTIVE
from tests.processes import until


class Answering:
    """Takes each message as it comes; `held` are those without an answer: id and arguments."""

    def __init__(self, app: Celery, *, at_once: bool) -> None:
        self._app = app
        self.at_once = at_once
        self.backend: Any = app._get_backend()
        self.held: dict[str, dict[str, Any]] = {}
        self.came: list[str] = []
        self._asked: dict[str, SimpleNamespace] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._take, name="answering")
        self._thread.start()

    def wait_for(self, many: int) -> None:
        """Until so many have come in all."""
        until(lambda: len(self.came) >= many, 20, f"{many} messages")

    def answer(self, task_id: str) -> None:
        """The prompt, upside down."""
        text = self.held.pop(task_id).get("prompt", "")[::-1]
        reply = {"text": text, "model": "fake-chat", "endpoint": "by hand", "total_ms": 1.0}
        self.backend.store_result(task_id, reply, "SUCCESS", request=self._asked[task_id])

    def fail(self, task_id: str, error: Exception) -> None:
        """What the task raised."""
        del self.held[task_id]
        self.backend.store_result(task_id, error, "FAILURE", request=self._asked[task_id])

    def answer_all(self) -> None:
        """Everybody who has none yet."""
        for task_id in list(self.held):
            self.answer(task_id)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def _take(self) -> None:
        while not self._stop.is_set():
            # A broker that restarts is waited for.
            with suppress(*self._app.connection().recoverable_connection_errors):
                self._take_until_lost()

    def _take_until_lost(self) -> None:
        queue = self._app.amqp.queues[INTERACTIVE]
        with (
            self._app.connection_for_read() as connection,
            connection.channel() as channel,
            Consumer(channel, [queue], callbacks=[self._came], accept=["json"]),
        ):
            while not self._stop.is_set():
                with suppress(TimeoutError):
                    connection.drain_events(timeout=0.1)

    def _came(self, body: Any, message: Message) -> None:
        message.ack()
        task_id = str(message.headers["id"])
        sent = message.properties
        self._asked[task_id] = SimpleNamespace(
            id=task_id,
            reply_to=sent.get("reply_to"),
            correlation_id=sent.get("correlation_id"),
            ignore_result=False,
        )
        self.held[task_id] = body[1]
        if self.at_once:
            self.answer(task_id)
        self.came.append(task_id)


@contextmanager
def answering(app: Celery, *, at_once: bool = False) -> Iterator[Answering]:
    """For as long as the block lasts."""
    one = Answering(app, at_once=at_once)
    try:
        yield one
    finally:
        one.close()
