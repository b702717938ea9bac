"""Results as they come: one thread and one subscription for everybody who waits in this process.

Celery's own `result.get()` has a result backend a thread and a subscription a request. Here a
process listens once, for the results of the ids that it gives out itself: on Redis and Valkey they
begin alike, so that one pattern finds them all; on RabbitMQ they come to one queue.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol

from celery import Celery
from celery.backends.redis import RedisBackend
from celery.backends.rpc import RPCBackend
from celery.states import READY_STATES
from kombu import Consumer, Queue

from app.errors import BrokerUnavailable
from app.worker.results import close_backend

log = logging.getLogger(__name__)

Result = dict[str, Any]
"""As Celery keeps it: `status`, one of its ready states, `result`, `task_id`."""

_LOOK_S = 1.0
"""Every so often answers are looked for whose notice was lost."""
_AGAIN_S = 0.2
_IDLE_S = 60.0
"""Nobody waited for so long: the thread ends, and its connection. The next one starts another."""
_CLOSE_S = 2.0
_SLICE_S = 0.1
_HEARTBEAT_S = 20


class _Source(Protocol):
    """Where results come from. Used by the listening thread only."""

    @property
    def reply_to(self) -> str | None:
        """What a message must name for its result to come here. None: nothing."""

    def opened(self) -> AbstractContextManager[None]:
        """A context in which results come."""

    def read(self, timeout_s: float) -> Iterable[Result] | None:
        """What comes within `timeout_s`, which is short, so that closing is heard; empty: nothing.
        None: something may have been missed."""

    def missed(self, ids: Collection[str]) -> Iterable[Result]:
        """Results that are there already; of those `ids` that have one."""

    def forget(self, ids: Collection[str]) -> None:
        """These were delivered: they need not be kept."""

    def leave(self) -> None:
        """Nobody will listen here again."""


class Results:
    """The results of this process. Threads may share it; a forked process needs its own.

    Nothing is opened before somebody waits, and nothing can be expected once it is closed.
    """

    def __init__(self, app: Celery, patience_s: float) -> None:
        """`patience_s`: how long the first one waits for the subscription."""
        self._backend: Any = app._get_backend()
        self._patience_s = patience_s
        self._begin = str(uuid.uuid4())[:24]
        self._numbers = itertools.count()
        self._source = _source(app, self._backend, self._begin)
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[float, Callable[[Result], object]]] = {}
        self._delivered: list[str] = []
        self._thread: threading.Thread | None = None
        self._begun = threading.Event()
        self._why_not: Exception | None = None
        self._stop = False

    @property
    def reply_to(self) -> str | None:
        """What a message must name for its result to come here. None: nothing."""
        return self._source.reply_to

    @property
    def waiting(self) -> int:
        """How many results are waited for."""
        return len(self._waiting)

    def expect(self, deliver: Callable[[Result], object]) -> str:
        """An id for a new task. `deliver` is called once, with its result, by the listening thread.

        BrokerUnavailable: nobody listens where results come from.
        """
        task_id = f"{self._begin}{next(self._numbers):012x}"
        with self._lock:
            self._waiting[task_id] = (time.monotonic(), deliver)
            if self._thread is None:
                self._begun, self._why_not = threading.Event(), None
                self._thread = threading.Thread(target=self._listen, name="results", daemon=True)
                self._thread.start()
            begun = self._begun
        if not begun.is_set():
            in_time = begun.wait(self._patience_s)
            if self._why_not is not None or not in_time:
                self.give_up(task_id)
                raise BrokerUnavailable(f"results cannot be listened for: {self._said()}")
        return task_id

    def give_up(self, task_id: str) -> None:
        """Nobody waits for it any more; a result that comes all the same is thrown away."""
        with self._lock:
            self._waiting.pop(task_id, None)

    def close(self) -> None:
        """Stop listening; whoever still waits gets nothing."""
        with self._lock:
            thread, self._stop = self._thread, True
            self._waiting.clear()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_CLOSE_S)
        close_backend(self._backend)

    def _said(self) -> str:
        return type(self._why_not).__name__ if self._why_not else "no answer in time"

    def _listen(self) -> None:
        """Until nobody waits, or it is closed. A connection that is lost is made again."""
        began = False
        while True:
            try:
                with self._source.opened():
                    began = True
                    self._begun.set()
                    self._come(self._source.missed(self._older_than(0.0)))
                    self._read()
            except Exception as error:
                log.debug("results are not heard: %s", error, exc_info=True)
                if not began:
                    self._why_not = error
                    self._end(even_waiting=True)
                    self._begun.set()
                    return
            if self._end(even_waiting=False):
                return
            time.sleep(_AGAIN_S)

    def _end(self, *, even_waiting: bool) -> bool:
        """Whether this thread ends here. Whoever comes next starts another."""
        with self._lock:
            if self._stop or even_waiting or not self._waiting:
                self._thread = None
                return True
        return False

    def _read(self) -> None:
        """Deliver what comes, until it is closed or nobody has waited for long."""
        look_at = idle_at = time.monotonic() + _LOOK_S
        idle_at += _IDLE_S
        while not self._stop:
            came = self._source.read(_SLICE_S)
            self._come(self._source.missed(self._older_than(0.0)) if came is None else came)
            now = time.monotonic()
            if now < look_at:
                continue
            look_at = now + _LOOK_S
            self._come(self._source.missed(self._older_than(_LOOK_S)))
            self._clear()
            if self._waiting:
                idle_at = now + _IDLE_S
            elif now > idle_at:
                break
        self._clear()
        if self._stop:
            self._source.leave()

    def _clear(self) -> None:
        with self._lock:
            delivered, self._delivered = self._delivered, []
        if delivered:
            self._source.forget(delivered)

    def _older_than(self, seconds: float) -> list[str]:
        before = time.monotonic() - seconds
        with self._lock:
            return [one for one, (since, _) in self._waiting.items() if since <= before]

    def _come(self, results: Iterable[Result]) -> None:
        for result in results:
            if result.get("status") not in READY_STATES:
                continue
            task_id = result["task_id"]
            with self._lock:
                _, deliver = self._waiting.pop(task_id, (0.0, None))
                self._delivered.append(task_id)
            if deliver is None:
                continue
            try:
                deliver(result)
            except Exception:
                log.exception("a result could not be handed on")


def _source(app: Celery, backend: Any, begin: str) -> _Source:
    """By the result backend's kind."""
    match backend:
        case RedisBackend():
            return _Notices(backend, begin)
        case RPCBackend():
            return _Replies(app, backend, f"giveway-replies-{begin}{0:012x}")
        case _:
            return _Looks(backend)


class _Notices:
    """Redis and Valkey: Celery's notice of each result, all of this process by one pattern."""

    reply_to = None

    def __init__(self, backend: Any, begin: str) -> None:
        self._backend = backend
        self._key: bytes = backend.get_key_for_task(begin)
        self._notices: Any = None

    @contextmanager
    def opened(self) -> Iterator[None]:
        self._notices = self._backend.client.pubsub()
        try:
            self._notices.psubscribe(self._key + b"*")
            while (told := self._notices.get_message(timeout=_CLOSE_S)) is not None:
                if told["type"] == "psubscribe":
                    break
            else:
                raise TimeoutError("the subscription was not confirmed")
            yield
        finally:
            with suppress(Exception):
                self._notices.close()

    def read(self, timeout_s: float) -> Iterable[Result] | None:
        told = self._notices.get_message(timeout=timeout_s)
        if told is None:
            return ()
        if told["type"] == "psubscribe":  # The client made a lost connection again.
            return None
        data = told["data"]
        if told["type"] != "pmessage" or not data:
            return ()
        return (self._backend.decode_result(data),)

    def missed(self, ids: Collection[str]) -> Iterable[Result]:
        if not ids:
            return ()
        found = self._backend.client.mget([self._backend.get_key_for_task(one) for one in ids])
        return [self._backend.decode_result(one) for one in found if one]

    def forget(self, ids: Collection[str]) -> None:
        self._backend.client.delete(*(self._backend.get_key_for_task(one) for one in ids))

    def leave(self) -> None:
        """The subscription ends with its connection."""


class _Replies:
    """RabbitMQ: a queue of this process, named in each message as where its reply goes.

    It outlives a connection that is lost; unlike Celery's, which is deleted with its last consumer,
    and with it what comes meanwhile.
    """

    def __init__(self, app: Celery, backend: Any, name: str) -> None:
        self.reply_to = name
        self._app = app
        self._backend = backend
        self._queue = Queue(name, durable=True, expires=float(app.conf.result_expires))
        self._connection: Any = None
        self._bound: Any = None
        self._came: list[Result] = []

    @contextmanager
    def opened(self) -> Iterator[None]:
        options = {"read_timeout": _CLOSE_S, "write_timeout": _CLOSE_S}
        self._connection = self._app.connection_for_read(
            heartbeat=_HEARTBEAT_S, transport_options=options
        )
        try:
            # Not `ensure_connection`, which would try again and again.
            channel = self._connection.channel()
            self._bound = self._queue(channel)
            self._bound.declare()
            with Consumer(
                channel, [self._bound], callbacks=[self._take], no_ack=True, accept=["json"]
            ):
                yield
        finally:
            with suppress(Exception):
                self._connection.release()

    def _take(self, content: Result, _message: Any) -> None:
        self._came.append(content)

    def read(self, timeout_s: float) -> Iterable[Result] | None:
        with suppress(TimeoutError):
            self._connection.drain_events(timeout=timeout_s)
        self._connection.heartbeat_check()
        came, self._came = self._came, []
        return [self._backend.meta_from_decoded(one) for one in came]

    def missed(self, ids: Collection[str]) -> Iterable[Result]:  # noqa: ARG002
        return ()  # They lie in the queue.

    def forget(self, ids: Collection[str]) -> None:
        """A reply that was taken is kept nowhere."""

    def leave(self) -> None:
        self._bound.delete()


class _Looks:
    """Any other result backend of Celery's, which tells nobody: all are looked at in turn."""

    reply_to = None

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    @contextmanager
    def opened(self) -> Iterator[None]:
        yield

    def read(self, timeout_s: float) -> Iterable[Result] | None:
        time.sleep(timeout_s)
        return None

    def missed(self, ids: Collection[str]) -> Iterable[Result]:
        return [self._backend.get_task_meta(one, cache=False) | {"task_id": one} for one in ids]

    def forget(self, ids: Collection[str]) -> None:
        for one in ids:
            self._backend.forget(one)

    def leave(self) -> None:
        """Nothing is left behind."""
