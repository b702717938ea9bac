"""Connections to the broker. On Redis and Valkey kombu makes a client for each operation, two or
three a message; here a channel keeps the one that it made. A client may be shared by threads: each
operation takes a connection of its own from the channel's pool."""

from __future__ import annotations

from typing import Any

from celery.app.amqp import AMQP
from kombu import Connection


class BrokerConnection(Connection):
    """Kombu's, with a kept client where there is one to keep."""

    def get_transport_cls(self) -> Any:
        """The transport's class."""
        found = super().get_transport_cls()
        if self.transport_cls not in ("redis", "rediss"):
            return found
        from app.worker.redis_transport import KeptTransport  # Needs a client that others have not.

        return KeptTransport


class OwnAMQP(AMQP):
    """Celery's, on these connections."""

    Connection = BrokerConnection
