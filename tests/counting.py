"""An endpoint that answers at once after a while, and knows how many were in flight at most."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import orjson

_EVENTS = (
    {"model": "fake-chat", "choices": [{"delta": {"content": "Yes."}}]},
    {"model": "fake-chat", "choices": [{"delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
)
_BODY = b"".join(b"data: " + orjson.dumps(one) + b"\n\n" for one in _EVENTS) + b"data: [DONE]\n\n"
_ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(_BODY)
) + _BODY


class Counting:
    """`delay_s` may be changed; `most` is the most that were in flight together, whoever they are
    (`enter` and `leave` are for those who do not come by HTTP)."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self.most = self.now = self.answered = self.asked = 0
        self.url = ""
        self.open: set[asyncio.Transport] = set()
        self.loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def drop(self) -> None:
        """End every connection. Called in the server's loop."""
        for transport in list(self.open):
            transport.abort()

    def enter(self) -> None:
        with self._lock:
            self.now += 1
            self.asked += 1
            self.most = max(self.most, self.now)

    def leave(self) -> None:
        with self._lock:
            self.now -= 1


class _Connection(asyncio.Protocol):
    def __init__(self, counting: Counting) -> None:
        self._counting = counting
        self._got = b""
        self._is_inside = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._counting.open.add(transport)

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, found, body = self._got.partition(b"\r\n\r\n")
        if not found:
            return
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-len")]
        if len(body) < int(lengths[0].partition(b":")[2]):
            return
        self._got, self._is_inside = b"", True
        self._counting.enter()
        asyncio.get_running_loop().call_later(self._counting.delay_s, self._answer)

    def _answer(self) -> None:
        if self._is_inside:  # It is over before its caller knows.
            self._is_inside = False
            self._counting.leave()
            self._counting.answered += 1
            self._transport.write(_ANSWER)

    def connection_lost(self, error: Exception | None) -> None:
        self._counting.open.discard(self._transport)
        if self._is_inside:
            self._is_inside = False
            self._counting.leave()


@contextlib.contextmanager
def counting(delay_s: float) -> Iterator[Counting]:
    """One on a free port, in a thread of its own."""
    one, loop, ready = Counting(delay_s), asyncio.new_event_loop(), threading.Event()
    over = asyncio.Event()

    async def serve() -> None:
        server = await loop.create_server(lambda: _Connection(one), "127.0.0.1", 0)
        one.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        one.loop = loop
        ready.set()
        await over.wait()
        server.close()
        one.drop()
        await asyncio.sleep(0)  # They are told.

    def run() -> None:
        loop.run_until_complete(serve())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield one
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(5)
