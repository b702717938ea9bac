"""A relay in front of Postgres that counts round trips, and that may hold everything back."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit


class _Asks:
    """Finds the messages by which a client asks for answers, in Postgres's protocol."""

    def __init__(self) -> None:
        self._rest = b""
        self._begun = False

    def in_(self, data: bytes) -> bool:
        """Whether one of them ends in `data`, which comes next."""
        self._rest += data
        found = False
        while True:
            head = 1 if self._begun else 0  # The first messages have no type.
            if len(self._rest) < head + 4:
                return found
            size = head + int.from_bytes(self._rest[head : head + 4])
            if len(self._rest) < size:
                return found
            message, self._rest = self._rest[:size], self._rest[size:]
            if not self._begun:
                self._begun = message[4:8] == b"\x00\x03\x00\x00"
            found |= message[:1] in (b"S", b"H", b"Q") if head else True


class Trips:
    """Between clients and a server, as threads. A round trip is that a client waits for answers: it
    sends Sync, Flush or a simple query, and has heard from the server since it last did."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname or "localhost", parts.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        login = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        self.url = urlunsplit(parts._replace(netloc=f"{login}127.0.0.1:{port}"))
        self.count = 0
        self.flows = threading.Event()
        """Cleared: nothing goes through."""
        self.flows.set()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                for one in (client, server):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open |= {client, server}
                threading.Thread(target=self._carry, args=(client, server), daemon=True).start()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        heard, asks = True, _Asks()
        with contextlib.suppress(OSError, ValueError), client, server:
            while True:
                ready, _, _ = select.select([client, server], [], [])
                self.flows.wait()
                for one in ready:
                    data = one.recv(262_144)
                    if not data:
                        return
                    if one is server:
                        heard = True
                    elif asks.in_(data) and heard:
                        self.count, heard = self.count + 1, False
                    (server if one is client else client).sendall(data)

    def close(self) -> None:
        self.flows.set()
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@contextlib.contextmanager
def trips(url: str) -> Iterator[Trips]:
    """A relay to the server at `url`."""
    one = Trips(url)
    try:
        yield one
    finally:
        one.close()
