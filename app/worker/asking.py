"""Asking as a person does, through the interactive queue: what a caller is and costs.

One Celery app a process, connections to the broker that are kept, and one listener for all results
(`listening`). Threads may ask together.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any
from uuid import UUID

from celery import Celery
from celery.exceptions import TaskRevokedError
from celery.states import SUCCESS
from kombu.exceptions import ConnectionLimitExceeded, OperationalError

from app import clock
from app.errors import BrokerUnavailable, GivewayError, Unavailable
from app.logs import masked
from app.wiring import Wiring
from app.worker.config import configuration
from app.worker.doorbell import close_pool, own_pool
from app.worker.interactive_tasks import as_uuid, facts
from app.worker.listening import Result, Results
from app.worker.queues import INTERACTIVE, broker_priority
from app.worker.reaching import reachable

GRACE_S = 2.0
"""A worker says itself that a deadline has passed; it is waited for a little."""
_PUBLISH_S = 5.0
"""How long a broker may take over one message before the caller is told."""
_CONNECTIONS = 4
_ONCE_MORE = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}
"""A kept connection may have been closed by the other side since: then a new one is tried."""


class Sender:
    """Sends requests and hears their results, all in this process."""

    def __init__(self, app: Celery) -> None:
        """Nothing is opened before the first request."""
        self._app = app
        self._url = str(app.conf.broker_url)
        self._queue = app.amqp.queues[INTERACTIVE]
        connect_s = float(app.conf.broker_connection_timeout)
        self._results = Results(app, connect_s + GRACE_S)
        self._pool = own_pool(
            app.connection_for_write(
                heartbeat=0,  # Between two requests nobody would answer the broker's.
                connect_timeout=connect_s,
                transport_options=dict(app.conf.broker_transport_options)
                | {"max_retries": 1, "connect_retries_timeout": connect_s}
                | dict.fromkeys(("socket_timeout", "read_timeout", "write_timeout"), _PUBLISH_S),
            ),
            _CONNECTIONS,
        )

    def send(
        self,
        task: str,
        asked: dict[str, Any],
        expires_s: float,
        deliver: Callable[[Result], object],
    ) -> str:
        """Ask for `giveway.interactive.TASK`; the id. `deliver` is called once, by another thread,
        when the result is there. BrokerUnavailable: nobody takes the message."""
        task_id = self._results.expect(deliver)
        try:
            self._publish(f"giveway.interactive.{task}", task_id, asked, expires_s)
        except BaseException as error:
            self._results.give_up(task_id)
            if isinstance(error, self._away()):
                raise BrokerUnavailable(f"the broker went away: {type(error).__name__}") from error
            raise
        return task_id

    def open(self) -> None:
        """Open now what the first request would open. BrokerUnavailable: nobody listens."""
        self._results.give_up(self._results.expect(lambda _: None))
        with self._pool.acquire(block=True, timeout=_PUBLISH_S) as producer:
            producer.connection.ensure_connection(max_retries=1, timeout=_PUBLISH_S)
            producer.maybe_declare(self._queue)

    def give_up(self, task_id: str) -> None:
        """Nobody waits for it any more."""
        self._results.give_up(task_id)

    def close(self) -> None:
        """Close what it opened."""
        self._results.close()
        close_pool(self._pool)

    def _away(self) -> tuple[type[BaseException], ...]:
        lost: tuple[type[BaseException], ...] = (
            self._pool.connections.connection.recoverable_connection_errors
        )
        return (*lost, OperationalError, ConnectionLimitExceeded)

    def _publish(self, name: str, task_id: str, asked: dict[str, Any], expires_s: float) -> None:
        """What `Celery.send_task` does, without its subscription for each result."""
        app = self._app
        parent = app.current_worker_task
        message = app.amqp.create_task_message(
            task_id,
            name,
            kwargs=asked,
            expires=expires_s,
            reply_to=self._results.reply_to or app.thread_oid,
            create_sent_event=app.conf.task_send_sent_event,
            root_id=parent and (parent.request.root_id or parent.request.id),
            parent_id=parent and parent.request.id,
            argsrepr="()",
            kwargsrepr=facts(asked),
        )
        with self._pool.acquire(block=True, timeout=_PUBLISH_S) as producer:
            app.amqp.send_task_message(
                producer,
                name,
                message,
                queue=self._queue,
                priority=broker_priority(asked.get("priority", 0), self._url),
                expiration=expires_s,
                retry=True,
                retry_policy=_ONCE_MORE,
            )


def asker(wiring: Wiring) -> Asker:
    """Asks on this wiring. BrokerUnavailable, when it first does: nobody listens there."""

    def make() -> Celery:
        url = wiring.settings.broker.url
        if url is not None and not reachable(wiring):
            raise BrokerUnavailable(
                f"the broker at {masked(url.get_secret_value())} does not answer"
            )
        # Whose task or whose notebook this is, it keeps its own current app.
        app = Celery("giveway", set_as_current=False)
        app.conf.update(configuration(wiring.settings))
        app.conf.redis_socket_timeout = _PUBLISH_S  # Celery's own would be two minutes.
        return app

    def cancel(request_id: UUID) -> None:
        wiring.interactive.cancel(request_id)

    return Asker(make, cancel)


class Asker:
    """A process's way to ask. A forked process makes connections of its own."""

    def __init__(self, make: Callable[[], Celery], cancel: Callable[[UUID], object]) -> None:
        """`make` is called when it is first asked. `cancel` takes a request back that nobody waits
        for any more, if it can."""
        self._make = make
        self._cancel = cancel
        self._lock = threading.Lock()
        self._sender: Sender | None = None
        _ASKERS.add(self)

    def ask(
        self, task: str, asked: dict[str, Any], wanted_s: float, patience_s: float | None = None
    ) -> dict[str, Any]:
        """The reply, which is of use for `wanted_s`; it is waited for as long, and for a little
        more, but never longer than `patience_s`.

        A leaf of EndpointError: the worker's. Unavailable: there was none in time. The request is
        taken back then, and whenever the wait is broken off.
        """
        told: Future[Result] = Future()
        asked = {**asked, "submitted_at": clock.now().timestamp()}
        sender = self._ready()
        task_id = sender.send(task, asked, wanted_s, told.set_result)
        try:
            result = told.result(min(wanted_s + GRACE_S, patience_s or math.inf))
        except BaseException as error:
            sender.give_up(task_id)
            self._take_back(task_id)
            if isinstance(error, TimeoutError):
                raise _none_within(wanted_s) from None
            raise
        try:
            return reply(result)
        except TaskRevokedError:
            raise _none_within(wanted_s) from None

    def close(self) -> None:
        """Close what it opened; it may be used again."""
        with self._lock:
            sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()

    def _ready(self) -> Sender:
        with self._lock:
            if self._sender is None:
                self._sender = Sender(self._make())
            return self._sender

    def _take_back(self, task_id: str) -> None:
        """Where that cannot be told, the request runs to its end."""
        with suppress(GivewayError):
            self._cancel(as_uuid(task_id))

    def forked(self) -> None:
        """This process is a new one: what the other has open is the other's."""
        self._lock = threading.Lock()
        if self._sender is not None:
            _THEIRS.append(self._sender)  # Closing it would end their subscription.
            self._sender = None


def reply(result: Result) -> dict[str, Any]:
    """What the task gave. Raises what it raised; TaskRevokedError: its message expired, or was
    revoked."""
    given = result["result"]
    if result["status"] == SUCCESS:
        answer: dict[str, Any] = given
        return answer
    raise given


def _none_within(wanted_s: float) -> Unavailable:
    return Unavailable(
        f"no answer within {wanted_s:g} s; does the interactive worker run? see: giveway status"
    )


_ASKERS: weakref.WeakSet[Asker] = weakref.WeakSet()
_THEIRS: list[Sender] = []


def _forked() -> None:
    for one in list(_ASKERS):
        one.forked()


os.register_at_fork(after_in_child=_forked)
