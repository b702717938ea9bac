"""A client of one OpenAI-compatible server: synchronous, pooled, without retries.

It speaks through httpcore2, the connection pool beneath httpx2: its network backend is a public
seam, and only there can a deadline hold over a whole call and a cancel close the socket at once.
"""

from __future__ import annotations

import contextlib
import os
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpcore2
import httpx2
import orjson

from app import clock, errors
from app.domain.inference import ChatReply, ChatRequest, EmbedReply, EmbedRequest, texts_of
from app.domain.replies import classified
from app.inference.asking import NEGOTIABLE, chat_body, embed_body, without
from app.inference.bodies import error_page, read_chat, whole
from app.inference.gauges import Gauges, gauges
from app.inference.replies import answered, any_json, embed_reply
from app.inference.sockets import Call, CallBackend
from app.inference.streaming import SoFar, Streamed

_KEEP_S = 4.0
"""Idle connections are dropped before uvicorn's 5 s, so that none is used as it is being closed."""
_T = TypeVar("_T")
_Read = Callable[[httpcore2.Response, Call], _T]


class Wire:
    """One server. Thread-safe; each process opens connections of its own, at its first call.

    `base_url` ends in /v1. Every failure is a leaf of EndpointError. `deadline_s` of a call is the
    time it may take in all, at most `total_timeout_s`. With `cancelled` set the call closes its
    connection and raises Abandoned: at once for a `Cancel`, within 50 ms for a plain event.
    `backend` opens the sockets; with that of `fibers` an event loop makes the calls.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        connect_timeout_s: float = 5.0,
        first_byte_timeout_s: float = 120.0,
        total_timeout_s: float = 600.0,
        backend: Callable[[float], CallBackend] = CallBackend,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise errors.ConfigError(
                f"{base_url!r} is no address of an endpoint; write http://HOST:PORT/v1"
            )
        self.base_url = base_url.rstrip("/")
        self._root_url = self.base_url.removesuffix("/v1")
        self._headers = [("accept-encoding", "identity"), ("user-agent", "giveway")]
        if api_key:
            self._headers.append(("authorization", f"Bearer {api_key}"))
        self._host = parts.hostname
        self._scheme = parts.scheme
        self._connect_timeout_s = connect_timeout_s
        self._backend = backend
        self._first_byte_timeout_s = first_byte_timeout_s
        self._total_timeout_s = total_timeout_s
        self._pools: dict[int, httpcore2.ConnectionPool] = {}
        self._refused: set[tuple[str, str]] = set()

    def embed(
        self,
        request: EmbedRequest,
        *,
        deadline_s: float,
        dim: int | None = None,
        cancelled: threading.Event | None = None,
        first_token_s: float | None = None,
    ) -> EmbedReply:
        """Vectors of `request.texts`, checked, `dim` numbers each where it is given.

        `first_token_s`: how long it may be until the answer begins, where that has a bound.
        """
        if not request.texts:  # Servers refuse an empty list.
            return embed_reply({"data": []}, request, dim)
        body = embed_body(request)
        with self._call(deadline_s, cancelled, first_byte_s=first_token_s) as call:
            reply = self._posted(call, "/embeddings", body, request.texts, whole)
            return embed_reply(answered(reply, request.texts), request, dim)

    def chat(
        self,
        request: ChatRequest,
        *,
        deadline_s: float,
        on_first_token: Callable[[], None] | None = None,
        on_text: Callable[[str], None] | None = None,
        cancelled: threading.Event | None = None,
        first_token_s: float | None = None,
        so_far: SoFar | None = None,
    ) -> ChatReply:
        """The completion, streamed: the callbacks run in this thread as the text comes in.

        `first_token_s`: how long it may be until the first token, where that has a bound. `so_far`
        gets what has come, so that it is there when the call is closed.
        """
        texts = texts_of(request)

        def read(response: httpcore2.Response, call: Call) -> ChatReply:
            def began() -> None:
                call.began()
                if on_first_token is not None:
                    on_first_token()

            return read_chat(response, call, Streamed(request, began, on_text, so_far))

        with self._call(deadline_s, cancelled, first_token_s=first_token_s) as call:
            return self._posted(call, "/chat/completions", chat_body(request), texts, read)

    def models(self, *, deadline_s: float = 10.0) -> tuple[str, ...]:
        """Names of the models that the server lists."""
        with self._call(deadline_s, None) as call:
            value = answered(self._got(call, f"{self.base_url}/models"))
        try:
            return tuple(str(entry["id"]) for entry in value["data"])
        except (KeyError, TypeError) as error:
            raise errors.BadReply("the reply has no list of models") from error

    def raw_embedding(self, model: str, text: str, *, deadline_s: float) -> object:
        """The vector of `text` as the server wrote it: base64 or a list. Raises EndpointError."""
        body = embed_body(EmbedRequest(model, (text,)))
        with self._call(deadline_s, None) as call:
            value = answered(self._posted(call, "/embeddings", body, (text,), whole), (text,))
        try:
            return value["data"][0]["embedding"]
        except (KeyError, IndexError, TypeError) as error:
            raise errors.BadReply("the reply has no data[0].embedding") from error

    def refused(self, model: str) -> frozenset[str]:
        """Fields that the server has refused in requests for `model`, so that they are left out."""
        return frozenset(field for known, field in self._refused if known == model)

    def health(self, *, deadline_s: float = 10.0) -> None:
        """Ask /health. Raises a leaf of EndpointError unless the server says that it is well."""
        with self._call(deadline_s, None) as call:
            self._got(call, f"{self._root_url}/health")

    def metrics(self, *, deadline_s: float = 5.0) -> Gauges:
        """What the server's /metrics says of its load; all None where it has no such page."""
        try:
            with self._call(deadline_s, None) as call:
                page = self._got(call, f"{self._root_url}/metrics")
        except (errors.ModelMissing, errors.AuthFailed):
            return Gauges()
        return gauges(bytes(page).decode("utf-8", "replace"))

    def ask(
        self, path: str, body: Mapping[str, Any], *, deadline_s: float, sent: Sequence[str] = ()
    ) -> Any:
        """The JSON that the server answers to `body` at `path`, which is outside /v1.

        `sent` are the texts in it, which no error may repeat.
        """
        url = self._root_url + path
        with (
            self._call(deadline_s, None) as call,
            self._exchange(call, "POST", url, orjson.dumps(body)) as response,
        ):
            if 200 <= response.status < 300:
                return any_json(whole(response, call))
            page = error_page(response, call)
        raise classified(response.status, page, _headers(response), now=clock.now(), sent=sent)

    def close(self) -> None:
        """Close this process's connections. A later call opens new ones."""
        pool = self._pools.pop(os.getpid(), None)
        if pool is not None:
            pool.close()

    @contextlib.contextmanager
    def _call(
        self,
        deadline_s: float,
        cancelled: threading.Event | None,
        *,
        first_byte_s: float | None = None,
        first_token_s: float | None = None,
    ) -> Iterator[Call]:
        """A call that the sockets of this thread obey."""
        call = Call(
            min(deadline_s, self._total_timeout_s),
            min(first_byte_s or self._first_byte_timeout_s, self._first_byte_timeout_s),
            cancelled,
            first_token_s,
        )
        with call.current():
            yield call

    def _posted(
        self,
        call: Call,
        path: str,
        body: Mapping[str, Any],
        sent: Sequence[str],
        read: _Read[_T],
    ) -> _T:
        """What `read` makes of the answer. Fields that the server refuses are left out, now by
        asking once more and later from the start; no other refusal is asked again."""
        model = str(body["model"])
        refused = {field for known, field in self._refused if known == model}
        while True:
            fields = without(body, refused)
            url = self.base_url + path
            with self._exchange(call, "POST", url, orjson.dumps(fields)) as response:
                if 200 <= response.status < 300:
                    result = read(response, call)
                    self._refused.update((model, field) for field in refused)
                    return result
                page = error_page(response, call)
            error = classified(
                response.status, page, _headers(response), now=clock.now(), sent=sent
            )
            named = {field for field in NEGOTIABLE if field in fields and field.encode() in page}
            if not (named and isinstance(error, errors.BadRequest)):
                raise error
            refused |= named

    def _got(self, call: Call, url: str) -> bytearray:
        with self._exchange(call, "GET", url, None) as response:
            if 200 <= response.status < 300:
                return whole(response, call)
            page = error_page(response, call)
        raise classified(response.status, page, _headers(response), now=clock.now())

    @contextlib.contextmanager
    def _exchange(
        self, call: Call, method: str, url: str, content: bytes | None
    ) -> Iterator[httpcore2.Response]:
        """The response as its headers are in; what goes wrong is a leaf of EndpointError."""
        headers = self._headers if content is None else [*self._headers, _JSON]
        try:
            with self._pool().stream(method, url, headers=headers, content=content) as response:
                yield response
        except httpcore2.RemoteProtocolError as error:
            call.slice_s()
            if call.saw_end:
                raise errors.ConnectionFailed("closed before the whole reply was there") from error
            raise errors.BadReply("the reply is not HTTP") from error
        except (httpcore2.NetworkError, httpcore2.ProxyError) as error:
            call.slice_s()
            raise errors.ConnectionFailed(f"the connection failed: {error}") from error

    def _pool(self) -> httpcore2.ConnectionPool:
        """This process's pool: sockets must not be shared with a forked child."""
        pool = self._pools.get(os.getpid())
        if pool is None:
            made = httpcore2.ConnectionPool(
                ssl_context=httpx2.create_ssl_context() if self._scheme == "https" else None,
                proxy=_proxy(self._scheme, self._host),
                max_connections=None,  # Limits are the throttle's; a call never queues here.
                max_keepalive_connections=256,
                keepalive_expiry=_KEEP_S,
                network_backend=self._backend(self._connect_timeout_s),
            )
            pool = self._pools.setdefault(os.getpid(), made)  # Another thread may have been first.
        return pool


_JSON = ("content-type", "application/json")


def _headers(response: httpcore2.Response) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in response.headers}


def _proxy(scheme: str, host: str) -> httpcore2.Proxy | None:
    """The proxy that the environment names (HTTPS_PROXY, NO_PROXY, …); none for this machine."""
    address = urllib.request.getproxies().get(scheme)
    if not address or host in ("localhost", "127.0.0.1", "::1"):
        return None
    if urllib.request.proxy_bypass(host):
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    login = (parts.username, parts.password or "") if parts.username else None
    return httpcore2.Proxy(f"{parts.scheme}://{parts.hostname}:{parts.port or 80}", auth=login)
