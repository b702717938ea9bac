"""Ringing through Celery: one small message a free place, which may be lost without harm."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from celery import Celery
from kombu.pools import ProducerPool

from app import clock
from app.worker.queues import BATCH

log = logging.getLogger(__name__)

_EXPIRES_S = 30
"""A ring that nobody heard for so long says nothing any more; the ticks ring again."""
_SLOW_S = 0.4
"""A broker that is down says so sooner; one that is frozen says nothing."""
_SILENT_S = 3.0


class CeleryDoorbell:
    """Implements `services.doorbell.Doorbell`. A broker that is down costs at most a moment."""

    def __init__(self, app: Celery, connect_timeout_s: float) -> None:
        self._app = app
        self._connect_timeout_s = connect_timeout_s
        self._lock = threading.Lock()
        self._pool: Any = None
        self._silent_until_s = 0.0

    def waiting(self) -> int:
        """Rings in the queue; 0 where the broker does not answer or has no queue yet."""
        if self._is_silent():
            return 0
        began_s = clock.monotonic_s()
        try:
            with self._producer() as producer:
                declared = producer.channel.queue_declare(queue=BATCH, passive=True)
                return int(declared.message_count)
        except Exception as error:  # noqa: BLE001 - the bell never raises
            log.debug("cannot count waiting rings: %s", type(error).__name__)
            self._note(began_s)
            return 0

    def ring(self, rings: Sequence[tuple[int, str]]) -> int:
        """Publish; how many went out. A broker that is down is a warning, not an error."""
        if self._is_silent():
            return 0
        sent, began_s = 0, clock.monotonic_s()
        try:
            with self._producer() as producer:
                for job_id, kind in rings:
                    self._app.send_task(
                        f"giveway.batch.{kind}",
                        kwargs={"job": job_id, "kind": kind},
                        producer=producer,
                        queue=BATCH,
                        expires=_EXPIRES_S,
                        retry=False,
                        ignore_result=True,
                    )
                    sent += 1
        except Exception as error:  # noqa: BLE001 - the bell never raises
            log.warning(
                "the broker did not take %d rings (%s); the next tick rings again",
                len(rings) - sent,
                type(error).__name__,
            )
            self._note(began_s)
        return sent

    def _is_silent(self) -> bool:
        return clock.monotonic_s() < self._silent_until_s

    def _note(self, began_s: float) -> None:
        """Whoever let one deadline pass is let alone for a while: ticks must not wait in vain."""
        now_s = clock.monotonic_s()
        if now_s - began_s >= _SLOW_S:
            self._silent_until_s = now_s + _SILENT_S

    def close(self) -> None:
        """Close its connections; the next ring opens others."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            close_pool(pool)

    @contextmanager
    def _producer(self) -> Iterator[Any]:
        """One of the producers. On an error its connection is dropped, not closed by the rules: who
        does not answer would not answer the good-bye either."""
        with self._producers().acquire(block=True, timeout=1) as producer:
            try:
                yield producer
            except Exception:
                with suppress(Exception):
                    producer.connection.collect()
                raise

    def _producers(self) -> Any:
        """Producers on connections that give up quickly."""
        with self._lock:
            if self._pool is None:
                options = dict(self._app.conf.broker_transport_options) | {
                    "max_retries": 0,
                    "interval_start": 0,
                    "interval_step": 0,
                    "interval_max": 0,
                    "connect_retries_timeout": self._connect_timeout_s,
                }
                connection = self._app.connection_for_write(
                    transport_options=options, connect_timeout=self._connect_timeout_s
                )
                self._pool = own_pool(connection, self._app.conf.broker_pool_limit)
            return self._pool


def own_pool(connection: Any, limit: int) -> Any:
    """Producers whose connections nobody shares: kombu's own pools are one for all apps of a
    process, and that may be somebody's worker."""
    return ProducerPool(connection.Pool(limit=limit), limit=limit)


def close_pool(pool: Any) -> None:
    """Close the producers of `own_pool`, and their connections."""
    with suppress(Exception):
        pool.force_close_all()
    with suppress(Exception):
        pool.connections.force_close_all()
