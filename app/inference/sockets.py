"""Sockets that keep the deadlines of a whole call and close when it is cancelled.

httpx's timeouts are for one read, so a server that drips a byte a second is never late. Here every
read and write asks the call that this thread is making how long it may still take.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import select
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import httpcore2

from app import errors
from app.clock import monotonic_s
from app.inference.cancel import Cancel

_LOOK_S = 0.05
"""How often a plain `threading.Event` is looked at; a `Cancel` needs looking only in a connect."""


class Call:
    """One HTTP call: until when it may run, and the socket it runs on.

    `deadline_s` counts from now for the whole call, `first_byte_s` until `answered()` is called,
    `first_token_s` (None: no bound of its own) until `began()` is. `cancelled` set: the socket is
    shut down by the thread that sets it, and the call ends with Abandoned.
    """

    def __init__(
        self,
        deadline_s: float,
        first_byte_s: float,
        cancelled: threading.Event | None = None,
        first_token_s: float | None = None,
    ) -> None:
        started = monotonic_s()
        self.seconds = deadline_s
        self.first_byte_seconds = first_byte_s
        self.saw_end = False
        self._ends_at = started + deadline_s
        self._first_byte_at = started + first_byte_s
        self._first_token_at = None if first_token_s is None else started + first_token_s
        self._answered = False
        self._cancelled = cancelled
        self._socket: socket.socket | None = None
        self._guard = threading.Lock()

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Make this the call of the running thread, whose sockets obey it."""
        token = _current.set(self)
        if isinstance(self._cancelled, Cancel):
            self._cancelled.hook(self._shut)
        try:
            yield
        finally:
            if isinstance(self._cancelled, Cancel):
                self._cancelled.unhook(self._shut)
            with self._guard:
                self._socket = (
                    None  # It may serve another call now; a late cancel must not shut it.
                )
            _current.reset(token)

    def answered(self) -> None:
        """The first byte of the answer is here: only the whole deadline counts from now on."""
        self._answered = True

    def began(self) -> None:
        """The first token of the answer is here."""
        self._first_token_at = None

    def hurry(self, seconds: float) -> None:
        """End the call within `seconds` from now."""
        self._ends_at = min(self._ends_at, monotonic_s() + seconds)

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled is not None and self._cancelled.is_set()

    def use(self, sock: socket.socket) -> None:
        """Run on `sock` from now on."""
        with self._guard:
            self._socket = sock

    def slice_s(self) -> float:
        """Seconds that one wait on the socket may take. Raises Abandoned or EndpointTimeout."""
        if self.is_cancelled:
            raise errors.Abandoned("the call was cancelled")
        now = monotonic_s()
        left_s = self._ends_at - now
        if left_s <= 0:
            raise errors.EndpointTimeout(f"no whole answer within {self.seconds:g} s")
        if not self._answered:
            first_left_s = self._first_byte_at - now
            if first_left_s <= 0:
                raise errors.EndpointTimeout(
                    f"no answer began within {self.first_byte_seconds:g} s"
                )
            left_s = min(left_s, first_left_s)
        if self._first_token_at is not None:
            if self._first_token_at <= now:
                raise errors.EndpointTimeout("no first token in time to ask somebody else")
            left_s = min(left_s, self._first_token_at - now)
        if self._cancelled is not None and not isinstance(self._cancelled, Cancel):
            left_s = min(left_s, _LOOK_S)
        return left_s

    def _shut(self) -> None:
        with self._guard:
            if self._socket is not None:
                # Not `SSLSocket.shutdown`, which takes the TLS state from under the reading thread.
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


_current: contextvars.ContextVar[Call] = contextvars.ContextVar("call")


class CallBackend(httpcore2.NetworkBackend):
    """Opens sockets for the call of the running thread. `connect_timeout_s` bounds that alone."""

    def __init__(self, connect_timeout_s: float) -> None:
        self._connect_timeout_s = connect_timeout_s

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the call knows better
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> CallStream:
        """A connected stream. Raises ConnectionFailed, EndpointTimeout or Abandoned."""
        call = _current.get()
        give_up_at = monotonic_s() + self._connect_timeout_s
        where = f"{host}:{port}"
        reason = "no address"
        try:
            addresses = self._addresses(host, port)
        except OSError as error:
            raise errors.ConnectionFailed(f"cannot find {where}: {error}") from error
        for family, kind, protocol, _name, address in addresses:
            sock = socket.socket(family, kind, protocol)
            try:
                call.use(sock)
                self._connect(sock, address, call, give_up_at)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as error:
                sock.close()
                call.slice_s()  # A cancelled connect looks like a refused one.
                reason = error.strerror or str(error)
            except BaseException:
                sock.close()
                raise
            else:
                return self._stream(sock)
        if monotonic_s() >= give_up_at:
            raise errors.EndpointTimeout(
                f"no connection to {where} within {self._connect_timeout_s:g} s"
            )
        raise errors.ConnectionFailed(f"cannot connect to {where}: {reason}")

    def _connect(self, sock: socket.socket, address: Any, call: Call, give_up_at: float) -> None:
        """Connect within the call's time and `give_up_at`, in waits that notice a cancel."""
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            sock.connect(address)
        while True:
            left_s = give_up_at - monotonic_s()
            if left_s <= 0:
                raise TimeoutError("timed out")
            if self._is_writable(sock, max(0.001, min(left_s, call.slice_s(), _LOOK_S))):
                break
        failed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed:
            raise OSError(failed, os.strerror(failed))

    # How it waits, which an event loop does otherwise.

    def _addresses(self, host: str, port: int) -> list[Any]:
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))

    def _is_writable(self, sock: socket.socket, within_s: float) -> bool:
        poller = select.poll()
        poller.register(sock, select.POLLOUT)
        return bool(poller.poll(within_s * 1000))

    def _stream(self, sock: socket.socket) -> CallStream:
        return CallStream(sock)


class CallStream(httpcore2.NetworkStream):
    """A connected socket. It outlives calls: each use asks for the running thread's call."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        """Up to `max_bytes`; empty at the end. Raises leaves of EndpointError."""
        call = _current.get()
        call.use(self._sock)
        while True:
            try:
                data = self._recv(max_bytes, call.slice_s())
            except TimeoutError:
                continue  # `slice_s` says whose time is up.
            except OSError as error:
                call.slice_s()
                raise errors.ConnectionFailed(
                    f"the connection broke: {error.strerror or error}"
                ) from error
            if not data:
                call.slice_s()
                call.saw_end = True
            return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        """Send it all. A broken pipe is httpcore's WriteError: an answer may be there already."""
        call = _current.get()
        call.use(self._sock)
        view = memoryview(buffer)
        while view:
            try:
                view = view[self._send(view, call.slice_s()) :]
            except TimeoutError:
                continue
            except OSError as error:
                call.slice_s()
                raise httpcore2.WriteError(str(error)) from error

    def close(self) -> None:
        self._sock.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> CallStream:
        """The same connection under TLS. Raises ConnectionFailed where the handshake fails."""
        call = _current.get()
        secure = ssl_context.wrap_socket(
            self._sock, server_hostname=server_hostname, do_handshake_on_connect=False
        )
        call.use(secure)
        try:
            while not self._shook_hands(secure, call.slice_s()):
                pass
        except OSError as error:
            secure.close()
            call.slice_s()
            raise errors.ConnectionFailed(f"the TLS handshake failed: {error}") from error
        except BaseException:
            secure.close()
            raise
        return type(self)(secure)

    # How it waits: TimeoutError, or False, where the time was over first.

    def _recv(self, max_bytes: int, within_s: float) -> bytes:
        self._sock.settimeout(within_s)
        return self._sock.recv(max_bytes)

    def _send(self, view: memoryview, within_s: float) -> int:
        self._sock.settimeout(within_s)
        return self._sock.send(view)

    @staticmethod
    def _shook_hands(secure: ssl.SSLSocket, within_s: float) -> bool:
        secure.settimeout(within_s)
        try:
            secure.do_handshake()
        except TimeoutError:
            return False
        return True

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks for: whether an idle connection was closed by the server."""
        if info == "is_readable":
            if self._sock.fileno() < 0:
                return True
            poller = select.poll()
            poller.register(self._sock, select.POLLIN)
            return bool(poller.poll(0))
        if info == "ssl_object" and isinstance(self._sock, ssl.SSLSocket):
            return self._sock._sslobj  # type: ignore[attr-defined]
        return self._sock if info == "socket" else None
