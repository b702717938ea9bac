"""Reaching the broker from outside a worker: ringing that never fails, an app to send and wait."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from app.errors import BrokerUnavailable, GivewayError
from app.logs import masked

if TYPE_CHECKING:
    from celery import Celery

    from app.wiring import Wiring

_FEW_RETRIES = {"max_retries": 2, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.2}
_PORTS = {"redis": 6379, "rediss": 6379, "amqp": 5672, "amqps": 5671, "pyamqp": 5672}


def ring(wiring: Wiring, pool: str) -> int:
    """Ring for the pool; how many rings went out. Never raises and never takes long.

    Where nobody answers at the broker's address nothing is tried: the next tick rings.
    """
    if not reachable(wiring):
        return 0
    try:
        with celery_of(wiring):
            return wiring.ringing.ring(pool)
    except GivewayError:
        return 0


def reachable(wiring: Wiring) -> bool:
    """Whether somebody listens where the broker should be. Costs `connect_timeout_s` at most."""
    url = wiring.settings.broker.url
    if url is None:
        return False
    parts = urlsplit(url.get_secret_value())
    address = (parts.hostname or "localhost", parts.port or _PORTS.get(parts.scheme, 0))
    try:
        with socket.create_connection(address, wiring.settings.broker.connect_timeout_s):
            return True
    except OSError:
        return False


@contextmanager
def celery_of(wiring: Wiring) -> Iterator[Celery]:
    """A Celery app on this wiring, which rings by it from now on; closed at the end.

    The process may be a worker of somebody else's app: its current app and its connections stay as
    they are.
    """
    from app.worker.assembly import make
    from app.worker.doorbell import CeleryDoorbell, close_pool, own_pool
    from app.worker.results import close_backend

    app = make(wiring, current=False)
    # Somebody waits: where answers are kept has no more time than where messages go.
    app.conf.redis_socket_timeout = wiring.settings.broker.publish_timeout_s
    app.conf.result_backend_transport_options = {"retry_policy": _FEW_RETRIES}
    pool = own_pool(app.connection_for_write(), app.conf.broker_pool_limit)
    app._pool, app.amqp._producer_pool = pool.connections, pool
    try:
        yield app
    finally:
        close_backend(app.backend)
        if isinstance(wiring.doorbell, CeleryDoorbell):
            wiring.doorbell.close()
        close_pool(pool)
        with suppress(Exception):
            app.close()


@contextmanager
def celery_that_answers(wiring: Wiring) -> Iterator[Celery]:
    """The same, for a command that waits. BrokerUnavailable: nobody answers, or it went away."""
    from kombu.exceptions import OperationalError

    url = wiring.settings.broker.url
    with celery_of(wiring) as app:
        if url is not None and not (reachable(wiring) and _answers(app)):
            shown = masked(url.get_secret_value())
            raise BrokerUnavailable(f"the broker at {shown} does not answer")
        try:
            yield app
        except OperationalError as error:
            raise BrokerUnavailable(f"the broker went away: {error}") from error
        except RuntimeError as error:
            if "result store" not in str(error):
                raise
            raise BrokerUnavailable("the broker went away, and the answer with it") from error


def _answers(app: Celery) -> bool:
    """Whether the broker says a word: a process that was stopped takes connections all the same."""
    with app.connection_for_write() as connection:
        transport = connection.transport
        try:
            # The connection itself would try again and again.
            own = transport.establish_connection()
            try:
                transport.create_channel(own)
            finally:
                transport.close_connection(own)
        except (*connection.connection_errors, *connection.channel_errors):
            return False
    return True
