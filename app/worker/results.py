"""Closing what a sender's result backend opened: Celery keeps one a thread, and leaves it open."""

from __future__ import annotations

from contextlib import suppress
from typing import Any


def close_backend(backend: Any) -> None:
    """Close its subscription and its connections. Harmless where it opened none."""
    with suppress(Exception):
        backend.result_consumer.stop()
    client = vars(backend).get("client")  # Redis; made on first use
    if client is not None:
        with suppress(Exception):
            client.connection_pool.disconnect()
            client.close()
