"""Sending interactive load: each request at its time, each wait counted from when it was due."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from celery import Celery
from celery.exceptions import TaskRevokedError

from app import clock
from app.domain.load import LoadPlan, LoadReport, Waited, arrivals, prompt, summary
from app.errors import EndpointError
from app.worker.asking import Sender, reply
from app.worker.listening import Result

_LOOK_S = 0.5
"""Every so often those are looked for who have waited too long."""


def run_load(
    app: Celery,
    plan: LoadPlan,
    on_finish: Callable[[Waited], object] = lambda _: None,
    stop: threading.Event | None = None,
) -> LoadReport:
    """Send every request at its time, wait for all answers, and say what people waited.

    `on_finish` is told of each request as it ends, by the thread that sends or by the one that
    listens. Setting `stop` ends sending and waiting; the report is of what was over by then.
    """
    load = _Load(app, plan, on_finish, stop or threading.Event())
    return load.run()


class _Load:
    """One run: this thread sends, whoever waits; another one hears all results."""

    def __init__(
        self,
        app: Celery,
        plan: LoadPlan,
        on_finish: Callable[[Waited], object],
        stop: threading.Event,
    ) -> None:
        self._sender = Sender(app)
        self._plan = plan
        self._on_finish = on_finish
        self._stop = stop
        self._changed = threading.Condition()
        self._sent: dict[int, tuple[str, float]] = {}
        """Of each that still waits: its task's id, and how late it was sent, in milliseconds."""
        self._in_order: deque[tuple[int, float]] = deque()
        self._waits: list[Waited] = []
        self._started_s = 0.0
        self._started_at = 0.0

    def run(self) -> LoadReport:
        try:
            with suppress(Exception):  # Then each request will say so.
                self._sender.open()  # It is not what people should wait for.
            self._started_s, self._started_at = clock.monotonic_s(), clock.now().timestamp()
            for number, due_s in enumerate(arrivals(self._plan)):
                if self._stop.wait(max(0.0, due_s - self._now_s())):
                    break
                self._send(number, due_s)
                self._leave(self._now_s())
            self._wait()
        finally:
            self._sender.close()
        wall_s = self._now_s()
        with self._changed:
            return summary(self._plan, self._waits, wall_s)

    def _now_s(self) -> float:
        return clock.monotonic_s() - self._started_s

    def _wait(self) -> None:
        """Until everybody has an answer or has left."""
        while not self._stop.is_set():
            self._leave(self._now_s())
            with self._changed:
                if not self._sent:
                    return
                self._changed.wait(_LOOK_S)

    def _leave(self, now_s: float) -> None:
        """Who has waited for too long waits no more."""
        while self._in_order and self._in_order[0][1] + self._plan.timeout_s <= now_s:
            number, due_s = self._in_order.popleft()
            with self._changed:
                waits = self._sent.pop(number, None)
            if waits is not None:
                self._sender.give_up(waits[0])
                self._over(due_s, waits[1], {}, "no_answer")

    def _send(self, number: int, due_s: float) -> None:
        late_ms = max(0.0, (self._now_s() - due_s) * 1000)
        if late_ms >= self._plan.timeout_s * 1000:
            return self._over(due_s, late_ms, {}, "no_answer")
        self._in_order.append((number, due_s))
        with self._changed:  # Its result may be there before `send` returns.
            self._sent[number] = ("", late_ms)
        try:
            task_id = self._sender.send(
                self._plan.kind,
                self._asked(number, due_s),
                self._plan.timeout_s,
                partial(self._answered, number, due_s),
            )
        except Exception as error:  # noqa: BLE001 - every way to fail is counted by its name
            with self._changed:
                del self._sent[number]
            return self._over(due_s, late_ms, {}, type(error).__name__)
        with self._changed:
            if number in self._sent:
                self._sent[number] = (task_id, late_ms)
        return None

    def _asked(self, number: int, due_s: float) -> dict[str, Any]:
        plan = self._plan
        asked: dict[str, Any] = {"model": plan.model, "submitted_at": self._started_at + due_s}
        if plan.user is not None:
            asked["user"] = plan.user
        if plan.kind == "chat":
            return asked | {"prompt": prompt(plan, number), "max_tokens": plan.max_tokens}
        return asked | {"texts": [prompt(plan, number)]}

    def _answered(self, number: int, due_s: float, result: Result) -> None:
        with self._changed:
            waits = self._sent.pop(number, None)
        if waits is None:
            return
        code: str | None = None
        answer: dict[str, Any] = {}
        try:
            answer = reply(result)
        except TaskRevokedError:
            code = "no_answer"
        except EndpointError as error:
            code = error.code
        except Exception as error:  # noqa: BLE001 - every way to fail is counted by its name
            code = type(error).__name__
        self._over(due_s, waits[1], answer, code)

    def _over(self, due_s: float, late_ms: float, answer: dict[str, Any], code: str | None) -> None:
        latency_ms = (self._now_s() - due_s) * 1000
        # The worker counts from when it got the message; the difference is the way there.
        way_ms = latency_ms - float(answer.get("total_ms") or 0.0)
        first, queued = answer.get("first_token_ms"), answer.get("queue_ms")
        waited = Waited(
            due_s=due_s,
            latency_ms=latency_ms,
            code=code,
            first_token_ms=None if first is None else way_ms + float(first),
            queue_ms=None if queued is None else way_ms + float(queued),
            late_ms=late_ms,
        )
        with self._changed:
            self._waits.append(waited)
            if not self._sent:
                self._changed.notify_all()
        self._on_finish(waited)
