"""Real servers for these tests: the simulated endpoint as a process, and sockets that misbehave."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.inference.wire import Wire
from tests.served import Served, serving


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Served]:
    with serving("--places", "8", "--speed", "4", "--ledger") as served:
        yield served


@pytest.fixture
def server(shared_server: Served) -> Iterator[Served]:
    """The shared endpoint, with no fault in force and an empty ledger."""
    shared_server.calm()
    yield shared_server
    shared_server.calm()


@pytest.fixture
def wire_to() -> Iterator[Callable[..., Wire]]:
    """Makes wires that are closed after the test."""
    with contextlib.ExitStack() as stack:

        def made(*given: Any, **more: Any) -> Wire:
            one = Wire(*given, **more)
            stack.callback(one.close)
            return one

        yield made


@pytest.fixture
def wire(server: Served, wire_to: Callable[..., Wire]) -> Wire:
    return wire_to(server.url)


@pytest.fixture
def start() -> Iterator[Callable[..., Served]]:
    """Starts endpoints of this test's own."""
    with contextlib.ExitStack() as stack:
        yield lambda *flags: stack.enter_context(serving(*flags))


@pytest.fixture
def rude() -> Iterator[Callable[..., str]]:
    """A raw socket server: each connection, its request read, is given to a function with the
    number of connections before it. Returns the URL."""
    with contextlib.ExitStack() as stack:

        def made(behave: Callable[[socket.socket, int], None], *, reads: bool = True) -> str:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            stack.callback(listener.shutdown, socket.SHUT_RDWR)
            thread = threading.Thread(target=_accept, args=(listener, behave, reads), daemon=True)
            thread.start()
            return f"http://127.0.0.1:{listener.getsockname()[1]}/v1"

        yield made


def _accept(
    listener: socket.socket, behave: Callable[[socket.socket, int], None], reads: bool
) -> None:
    count = 0
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, contextlib.suppress(OSError):
            connection.settimeout(5)
            if reads:
                read_request(connection)
            behave(connection, count)
        count += 1


def read_request(connection: socket.socket) -> None:
    """Read a request to its end: closing with bytes unread would reset the connection."""
    data = b""
    while b"\r\n\r\n" not in data and (more := connection.recv(65_536)):
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    left = (int(length[1]) if length else 0) - len(body)
    while left > 0 and (more := connection.recv(65_536)):
        left -= len(more)
