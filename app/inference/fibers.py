"""The wire in an event loop: a call runs in a fiber, which steps aside while its socket waits.

What a call means (its deadlines, its errors, how a stream is read) is written once, as plain
functions, and batch runs them in threads. Here the same functions run in greenlets of the loop's
thread: only where they would wait for a socket, the loop goes on with others. So hundreds of calls
at once cost no thread, and there is no second client to keep in step with the first.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

from greenlet import getcurrent, greenlet

from app.inference.sockets import CallBackend, CallStream

T = TypeVar("T")


class _Fiber(greenlet):
    """A plain function on its way in a task of the loop. Its context variables are the task's."""

    def __init__(self, work: Callable[[], Any], driver: greenlet) -> None:
        super().__init__(work, driver)
        self.driver = driver
        self.gr_context = driver.gr_context


async def in_fiber(work: Callable[[], T]) -> T:
    """What `work` returns. It may `hold` for awaitables of this loop, and must not block.

    A task that is cancelled meanwhile has CancelledError raised where `work` waits.
    """
    fiber = _Fiber(work, getcurrent())
    found = fiber.switch()
    while not fiber.dead:
        try:
            value = await found
        except BaseException:  # noqa: BLE001 - whatever it is, it is the fiber's
            found = fiber.throw(*sys.exc_info())
        else:
            found = fiber.switch(value)
    return cast(T, found)


def hold(wanted: Awaitable[T]) -> T:
    """Within a fiber: wait for `wanted` while the loop goes on."""
    fiber = getcurrent()
    assert isinstance(fiber, _Fiber)
    return cast(T, fiber.driver.switch(wanted))


class LoopBackend(CallBackend):
    """Opens sockets for calls that run in fibers."""

    def _addresses(self, host: str, port: int) -> list[Any]:
        with suppress(ValueError):  # An address needs no looking up, which takes a thread.
            ipaddress.ip_address(host)
            return super()._addresses(host, port)
        loop = asyncio.get_running_loop()
        return hold(loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))

    def _is_writable(self, sock: socket.socket, within_s: float) -> bool:
        return _waited(sock, within_s, writes=True)

    def _stream(self, sock: socket.socket) -> CallStream:
        sock.setblocking(False)
        return _LoopStream(sock)


class _LoopStream(CallStream):
    """A connected socket whose waits are the loop's."""

    def _recv(self, max_bytes: int, within_s: float) -> bytes:
        try:
            return self._sock.recv(max_bytes)
        except (BlockingIOError, ssl.SSLWantReadError):
            _waited(self._sock, within_s)
        except ssl.SSLWantWriteError:
            _waited(self._sock, within_s, writes=True)
        raise TimeoutError

    def _send(self, view: memoryview, within_s: float) -> int:
        try:
            return self._sock.send(view)
        except (BlockingIOError, ssl.SSLWantWriteError):
            _waited(self._sock, within_s, writes=True)
        except ssl.SSLWantReadError:
            _waited(self._sock, within_s)
        raise TimeoutError

    @staticmethod
    def _shook_hands(secure: ssl.SSLSocket, within_s: float) -> bool:
        secure.setblocking(False)
        try:
            secure.do_handshake()
        except ssl.SSLWantReadError:
            _waited(secure, within_s)
        except ssl.SSLWantWriteError:
            _waited(secure, within_s, writes=True)
        else:
            return True
        return False


def _waited(sock: socket.socket, within_s: float, *, writes: bool = False) -> bool:
    """Whether `sock` became readable (or writable) within that time."""
    loop, number = asyncio.get_running_loop(), sock.fileno()
    ready: asyncio.Future[bool] = loop.create_future()
    timer = loop.call_later(within_s, _settle, ready, False)
    (loop.add_writer if writes else loop.add_reader)(number, _settle, ready, True)
    try:
        return hold(ready)
    finally:
        timer.cancel()
        (loop.remove_writer if writes else loop.remove_reader)(number)


def _settle(ready: asyncio.Future[bool], value: bool) -> None:
    if not ready.done():
        ready.set_result(value)
