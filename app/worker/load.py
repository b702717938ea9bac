"""Sending interactive load: each request at its time, each wait counted from when it was due."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from celery import Celery
from celery.exceptions import TaskRevokedError
from celery.exceptions import TimeoutError as NoResult

from app import clock
from app.domain.load import LoadPlan, LoadReport, Waited, arrivals, prompt, summary
from app.errors import EndpointError
from app.worker.interactive_tasks import facts
from app.worker.queues import broker_priority
from app.worker.results import close_backend

MOST_IN_FLIGHT = 512
"""Requests in flight, each with a thread; whoever comes after them waits, and the wait counts."""
_LOOK_S = 1.0


def run_load(
    app: Celery,
    plan: LoadPlan,
    on_finish: Callable[[Waited], object] = lambda _: None,
    stop: threading.Event | None = None,
) -> LoadReport:
    """Send every request at its time, wait for all answers, and say what people waited.

    `on_finish` is told of each request as it ends, from the thread that waited for it. Setting
    `stop` ends the sending and the waiting; the report is of what was over by then.
    """
    senders = _Senders(app, plan, on_finish, stop or threading.Event())
    return senders.run()


class _Senders:
    """One run: a thread a request in flight, each with result connections of its own."""

    def __init__(
        self,
        app: Celery,
        plan: LoadPlan,
        on_finish: Callable[[Waited], object],
        stop: threading.Event,
    ) -> None:
        self._app = app
        self._plan = plan
        self._on_finish = on_finish
        self._stop = stop
        self._lock = threading.Lock()
        self._backends: list[Any] = []
        self._waits: list[Waited] = []
        self._started_s = 0.0
        self._started_at = 0.0

    def run(self) -> LoadReport:
        due = arrivals(self._plan)
        most = max(1, min(MOST_IN_FLIGHT, len(due)))
        pool = ThreadPoolExecutor(most, "giveway-load", initializer=self._join)
        try:
            self._warm_up()
            self._started_s, self._started_at = clock.monotonic_s(), clock.now().timestamp()
            for number, due_s in enumerate(due):
                if self._stop.wait(max(0.0, self._started_s + due_s - clock.monotonic_s())):
                    break
                pool.submit(self._request, number, due_s)
        except BaseException:
            self._stop.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=self._stop.is_set())
            for backend in self._backends:
                close_backend(backend)
        wall_s = clock.monotonic_s() - self._started_s
        return summary(self._plan, self._waits, wall_s)

    def _warm_up(self) -> None:
        """The first connection to the broker is not what people should wait for."""
        with suppress(Exception), self._app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=0, timeout=1)

    def _join(self) -> None:
        """Celery keeps a result backend a thread; they are closed when all is over."""
        with self._lock:
            self._backends.append(self._app.backend)

    def _request(self, number: int, due_s: float) -> None:
        late_s = clock.monotonic_s() - self._started_s - due_s
        if self._stop.is_set():
            return
        code: str | None = None
        reply: dict[str, Any] = {}
        try:
            reply = self._answer(number, due_s)
        except _Stopped:
            return
        except (NoResult, TaskRevokedError):
            code = "no_answer"
        except EndpointError as error:
            code = error.code
        except Exception as error:  # noqa: BLE001 - every way to fail is counted by its name
            code = type(error).__name__
        latency_s = clock.monotonic_s() - self._started_s - due_s
        late_ms = max(0.0, late_s * 1000)
        # The worker counts from when it got the message; the difference is the way there.
        way_ms = latency_s * 1000 - float(reply.get("total_ms") or 0.0)
        first, queued = reply.get("first_token_ms"), reply.get("queue_ms")
        waited = Waited(
            due_s=due_s,
            latency_ms=latency_s * 1000,
            code=code,
            first_token_ms=None if first is None else way_ms + float(first),
            queue_ms=None if queued is None else way_ms + float(queued),
            late_ms=late_ms,
        )
        with self._lock:
            self._waits.append(waited)
        self._on_finish(waited)

    def _answer(self, number: int, due_s: float) -> dict[str, Any]:
        plan = self._plan
        kwargs: dict[str, Any] = {"model": plan.model, "submitted_at": self._started_at + due_s}
        if plan.user is not None:
            kwargs["user"] = plan.user
        if plan.kind == "chat":
            kwargs |= {"prompt": prompt(plan, number), "max_tokens": plan.max_tokens}
        else:
            kwargs |= {"texts": [prompt(plan, number)]}
        result = self._app.send_task(
            f"giveway.interactive.{plan.kind}",
            kwargs=kwargs,
            argsrepr="()",
            kwargsrepr=facts(kwargs),
            priority=broker_priority(0, self._app.conf.broker_url),
            expires=plan.timeout_s,
            retry=False,
        )
        try:
            return self._result(result, self._started_s + due_s + plan.timeout_s)
        finally:
            with suppress(Exception):
                result.forget()

    def _result(self, result: Any, until_s: float) -> dict[str, Any]:
        """The reply. In short waits, so that stopping is heard and a lost notice is made good."""
        while True:
            left_s = until_s - clock.monotonic_s()
            try:
                reply: dict[str, Any] = result.get(timeout=max(0.001, min(_LOOK_S, left_s)))
            except NoResult:
                if self._stop.is_set():
                    raise _Stopped from None
                if left_s <= _LOOK_S:
                    raise
                continue
            return reply


class _Stopped(Exception):
    """The run was stopped while this request waited."""
