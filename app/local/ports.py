"""Ports for the embedded services: the same ones for a data folder each time, if they are free.

They lie below the range from which the machine takes the near ends of outgoing connections. A
restarted server would otherwise now and then find its port taken by such a connection, and a client
that keeps trying a dead port in that range can end up connected to itself.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Container
from pathlib import Path

from app.errors import UsageError

FIRST, COUNT = 20_000, 12_000
HOST = "127.0.0.1"


def is_free(port: int, host: str = HOST) -> bool:
    """Whether a server could listen there now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: closed connections that linger do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
        return True


def answers(port: int, host: str = HOST, within_s: float = 0.3) -> bool:
    """Whether something accepts connections there."""
    try:
        with socket.create_connection((host, port), timeout=within_s):
            return True
    except OSError:
        return False


def choose(
    data: Path, name: str, given: int | None = None, taken: Container[int] = (), host: str = HOST
) -> int:
    """`given` if it is free, else UsageError; None or 0: the first free from a start of its own.

    `taken` holds ports that were chosen already but that nobody listens on yet.
    """
    if given:
        if given in taken or not is_free(given, host):
            raise UsageError(f"port {given} for {name} is taken; give another, or none")
        return given
    digest = hashlib.sha256(f"{data.resolve()}\0{name}".encode()).digest()
    start = int.from_bytes(digest[:4], "big")
    for step in range(COUNT):
        port = FIRST + (start + step) % COUNT
        if port not in taken and is_free(port, host):
            return port
    raise UsageError(f"no free port for {name} between {FIRST} and {FIRST + COUNT - 1}")
