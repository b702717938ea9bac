"""Kombu's transport for Redis and Valkey whose channels keep their client, see `connections`."""

from __future__ import annotations

from typing import Any

from kombu.transport.redis import Channel, Transport


class _KeptClient(Channel):
    _kept: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        """Only one that listens is a client of its own. A lost connection's pool goes with it."""
        if asynchronous:
            return super()._create_client(asynchronous=True)
        kept = self._kept
        if kept is None or kept.connection_pool is not self.pool:
            kept = self._kept = super()._create_client()
        return kept


class KeptTransport(Transport):
    """Named by its URL's scheme as ever."""

    Channel = _KeptClient
