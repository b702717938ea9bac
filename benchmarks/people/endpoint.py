"""A model server that answers a chat in 5 to 7 ms and costs next to nothing: raw HTTP/1.1.

`python -m benchmarks.people.endpoint` says `listening on http://127.0.0.1:PORT/v1`.
"""

from __future__ import annotations

import asyncio
import json
import random

MODEL = "bench-chat"
LEAST_S, MOST_S = 0.005, 0.007
_TIMER_S = 0.0005
"""By so much an event loop's timer is late on average: it rounds up to the next millisecond."""
_USAGE = {"prompt_tokens": 40, "completion_tokens": 4, "total_tokens": 44}
_TEXT = "four words of answer"


def _event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _answer(kind: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
    return head % (kind, len(body)) + body


def _chunk(**more: object) -> dict[str, object]:
    return {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": MODEL, **more}


_STREAMED = _answer(
    b"text/event-stream",
    _event(_chunk(choices=[{"index": 0, "delta": {"content": _TEXT}, "finish_reason": None}]))
    + _event(_chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}]))
    + _event(_chunk(choices=[], usage=_USAGE))
    + b"data: [DONE]\n\n",
)
_MODELS = _answer(
    b"application/json", json.dumps({"object": "list", "data": [{"id": MODEL}]}).encode()
)
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


class _Visitor(asyncio.Protocol):
    """One connection, one request after the other."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._came = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._came += data
        end = self._came.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._came[:end]).lower()
        _, _, length = head.partition(b"content-length:")
        size = int(length.split(b"\r\n")[0]) if length else 0
        if len(self._came) < end + 4 + size:
            return
        self._came.clear()
        if b"/chat/completions" in head.split(b"\r\n")[0]:
            after_s = self._chance.uniform(LEAST_S, MOST_S) - _TIMER_S
            asyncio.get_running_loop().call_later(after_s, self._say, _STREAMED)
        else:
            self._say(_MODELS if b"/models" in head.split(b"\r\n")[0] else _NOT_FOUND)

    def _say(self, answer: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(answer)


async def _serve() -> None:
    chance = random.Random(11)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Visitor(chance), "127.0.0.1", 0, backlog=512)
    print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
