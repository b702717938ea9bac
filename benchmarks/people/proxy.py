"""A TCP proxy that puts a server some milliseconds away, and counts round trips.

`python -m benchmarks.people.proxy HOST:PORT` says `listening on 127.0.0.1:PORT`. A line on standard
input is an order: `delay MS` (each way), `count`, which is answered by a line of JSON: round trips
so far, by the name that a client of Postgres gave itself.

A round trip is a turn of the talk: the client speaks after the server did. Statements that are sent
together are one. Threads, since an event loop's timers round up to whole milliseconds.
"""

from __future__ import annotations

import json
import queue
import socket
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from functools import partial

_NAME = b"application_name\0"


class Proxy:
    """Connections to one address; `delay_s` is of each way and may be set at any time."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.delay_s = 0.0
        self.turns: Counter[str] = Counter()
        self._talks: list[_Talk] = []
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]

    def serve(self) -> None:
        """Take connections until it is closed."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._talks.append(_Talk(self, client, server))

    def close(self) -> None:
        """Take no more connections, and wait for those there are to end."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for talk in self._talks:
            talk.wait()


class _Talk:
    """One connection, carried both ways."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client, self._server = client, server
        self._name = ""
        self._client_spoke = False
        self._threads: list[threading.Thread] = []
        self._open = [client, server]
        for start, end, is_client in ((client, server, True), (server, client, False)):
            on_way: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
            for work in (
                partial(self._take, start, on_way, is_client=is_client),
                partial(self._give, end, on_way),
            ):
                self._threads.append(threading.Thread(target=work, daemon=True))
        for thread in self._threads:
            thread.start()

    def wait(self) -> None:
        """Until both sides have hung up."""
        for thread in self._threads:
            thread.join(10)

    def _take(
        self,
        start: socket.socket,
        on_way: queue.SimpleQueue[tuple[float, bytes]],
        *,
        is_client: bool,
    ) -> None:
        data = b"-"
        while data:
            data = b""
            with suppress(OSError):
                data = start.recv(1 << 16)
            if is_client and data:
                self._note(data)
            elif not is_client:
                self._client_spoke = False
            on_way.put((time.perf_counter() + self._proxy.delay_s, data))

    def _note(self, data: bytes) -> None:
        if not self._name and _NAME in data:
            self._name = data.partition(_NAME)[2].partition(b"\0")[0].decode(errors="replace")
        if not self._client_spoke:
            self._client_spoke = True
            self._proxy.turns[self._name] += 1

    def _give(self, end: socket.socket, on_way: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        while True:
            at, data = on_way.get()
            if not data:
                break
            time.sleep(max(0.0, at - time.perf_counter()))
            try:
                end.sendall(data)
            except OSError:
                break
        with suppress(OSError):
            end.shutdown(socket.SHUT_WR)
        self._open.remove(end)
        if not self._open:  # The other way is over as well.
            self._client.close()
            self._server.close()


def _main() -> None:
    host, _, port = sys.argv[1].rpartition(":")
    sys.setswitchinterval(0.0002)
    proxy = Proxy((host, int(port)))
    threading.Thread(target=proxy.serve, daemon=True).start()
    print(f"listening on 127.0.0.1:{proxy.port}", flush=True)
    for line in sys.stdin:
        match line.split():
            case ["delay", ms]:
                proxy.delay_s = float(ms) / 1000
                print("{}", flush=True)
            case _:
                print(json.dumps(proxy.turns), flush=True)


if __name__ == "__main__":
    _main()
