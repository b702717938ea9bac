"""Closing what a sender's result backend opened: Celery keeps one a thread, and leaves it open."""

from __future__ import annotations

from contextlib import suppress
from typing import Any


def close_backend(backend: Any) -> None:
    """Close its subscription and its connections. Harmless where it opened none, or has none."""
    consumer = getattr(backend, "result_consumer", None)
    # Results that are dropped later, as unanswered ones are, would open a new connection just to
    # unsubscribe.
    getattr(consumer, "subscribed_to", set()).clear()
    with suppress(Exception):
        if consumer is not None:
            consumer.stop()
    client = vars(backend).get("client")  # Redis; made on first use
    if client is not None:
        with suppress(Exception):
            client.connection_pool.disconnect()
            client.close()
