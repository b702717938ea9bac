"""POST to somebody else's server: one deadline for all of it, no redirects, nothing of the answer
read but its head."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpcore2
import httpx2

from app import clock, errors
from app.domain.replies import retry_after_s
from app.domain.webhooks import is_private
from app.inference.sockets import Call, CallBackend, CallStream

_CONNECT_S = 5.0
_BROKEN = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.UnsupportedProtocol)


@dataclass(frozen=True, slots=True)
class Posted:
    """What came of it. `status` None: no answer; then `error` says why, without the URL."""

    status: int | None
    error: str | None = None
    retry_after_s: float | None = None


def post(
    url: str, content: bytes, headers: Mapping[str, str], timeout_s: float, *, allow_private: bool
) -> Posted:
    """Send `content`. Whatever goes wrong is in what is returned."""
    is_secure = urlsplit(url).scheme == "https"
    call = Call(timeout_s, timeout_s)
    with (
        call.current(),
        httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context() if is_secure else None,
            max_connections=1,
            max_keepalive_connections=0,
            network_backend=_Guarded(min(_CONNECT_S, timeout_s), allow_private=allow_private),
        ) as pool,
    ):
        try:
            with pool.stream("POST", url, headers=[*headers.items()], content=content) as response:
                answered = {
                    name.decode("latin-1").lower(): value.decode("latin-1")
                    for name, value in response.headers
                }
                return Posted(response.status, None, retry_after_s(answered, clock.now()))
        except errors.EndpointError as error:
            return Posted(None, str(error))
        except _BROKEN as error:
            return Posted(None, f"the connection broke: {type(error).__name__}")


class _Guarded(CallBackend):
    """Connects to the address that was looked at, so that a name cannot point elsewhere then."""

    def __init__(self, connect_timeout_s: float, *, allow_private: bool) -> None:
        super().__init__(connect_timeout_s)
        self._allow_private = allow_private

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> CallStream:
        """A connected stream. ConnectionFailed: it is inside this network, and must not be."""
        if not self._allow_private:
            host = _outside(host, port)
        return super().connect_tcp(host, port, timeout, local_address, socket_options)


def _outside(host: str, port: int) -> str:
    """An address of `host`, none of whose addresses is inside."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise errors.ConnectionFailed(f"cannot find {host}: {error.strerror}") from error
    addresses = [str(address[0]) for *_, address in found]
    if any(is_private(address) for address in addresses):
        raise errors.ConnectionFailed(
            f"{host} is inside this network; [webhooks] allow_private = true would allow it"
        )
    return addresses[0]
