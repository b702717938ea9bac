"""A relay before a server that can be frozen: it still takes connections, and then says nothing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit, urlunsplit

_DEFAULT_PORTS = {"amqp": 5672, "redis": 6379}


class Freezing:
    """`url` leads to the server; what is written through it while it is frozen arrives when it is
    thawed, as with a process that was stopped."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname or "127.0.0.1", parts.port or _DEFAULT_PORTS[parts.scheme])
        self._moves = threading.Event()
        self._moves.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        user = parts.netloc.rpartition("@")[0]
        port = self._listener.getsockname()[1]
        self.url = urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{port}".lstrip("@")))
        self._start(self._accept)

    def freeze(self) -> None:
        """Nothing goes through from now on."""
        self._moves.clear()

    def thaw(self) -> None:
        """Everything goes through again."""
        self._moves.set()

    def close(self) -> None:
        """End it, with its connections."""
        self._moves.set()
        for one in [self._listener, *self._sockets]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    @staticmethod
    def _start(work: object, *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._sockets += [client, server]
                self._start(self._pump, client, server)
                self._start(self._pump, server, client)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65_536):
                self._moves.wait()
                sink.sendall(piece)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@contextmanager
def freezing(url: str) -> Iterator[Freezing]:
    """A relay before `url`."""
    one = Freezing(url)
    try:
        yield one
    finally:
        one.close()
