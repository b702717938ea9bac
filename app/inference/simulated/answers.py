"""Answers as bytes, and the ways in which a broken server sends them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.domain.inference import Vectors
from app.inference.simulated.faults import Mode
from app.inference.simulated.requests import ChatAsked, EmbeddingsAsked

_JSON = "application/json"
END = b"data: [DONE]\n\n"


class Json(Response):
    """Bytes of JSON, whole."""

    media_type = _JSON


class CutOff(Response):
    """Half of `content`, then the connection closes."""

    media_type = _JSON

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        headers = self.raw_headers
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        half = bytes(self.body[: len(self.body) // 2])
        await send({"type": "http.response.body", "body": half, "more_body": True})
        # Returning with `more_body` owed makes uvicorn close the connection.


class Pieces(Response):
    """Chunks of a body as they come; one that `owes` its end closes the connection instead."""

    def __init__(
        self, pieces: AsyncIterator[bytes], media_type: str, *, owes: bool = False
    ) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.body = b""
        self.init_headers()
        self.raw_headers = [pair for pair in self.raw_headers if pair[0] != b"content-length"]
        self._pieces = pieces
        self._owes = owes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        headers = self.raw_headers
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if not self._owes:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def dripping(body: bytes, every_s: float) -> AsyncIterator[bytes]:
    """One byte at a time."""
    for at in range(len(body)):
        yield body[at : at + 1]
        await asyncio.sleep(every_s)


def embeddings_body(asked: EmbeddingsAsked, vectors: Vectors, spoilt: Mode | None) -> bytes:
    """The answer of /v1/embeddings."""
    rows = [(at, vector) for at, vector in enumerate(vectors)]
    if spoilt is not None:
        rows = _spoilt(rows, spoilt)
    data = [
        {
            "object": "embedding",
            "index": at,
            "embedding": _base64(vector) if asked.as_base64 else np.ascontiguousarray(vector),
        }
        for at, vector in rows
    ]
    usage = {"prompt_tokens": asked.tokens, "total_tokens": asked.tokens}
    value = {"object": "list", "data": data, "model": asked.model, "usage": usage}
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def chat_body(number: int, asked: ChatAsked) -> bytes:
    """The answer of /v1/chat/completions without streaming."""
    message = {"role": "assistant", "content": "".join(asked.words)}
    choice = {"index": 0, "message": message, "finish_reason": asked.finish_reason}
    return orjson.dumps(
        _head(number, asked, "chat.completion") | {"choices": [choice], "usage": usage(asked)}
    )


def token_events(number: int, asked: ChatAsked, first: int, end: int) -> bytes:
    """The events of tokens `first` up to `end`; the last one of all carries the reason."""
    head = _head(number, asked, "chat.completion.chunk")
    events = []
    for at in range(first, end):
        delta = {"content": asked.words[at]}
        if at == 0:
            delta["role"] = "assistant"
        reason = asked.finish_reason if at == len(asked.words) - 1 else None
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        event = head | {"choices": [choice]}
        if asked.usage_in_events:
            event["usage"] = usage(asked, at + 1)
        events.append(b"data: " + orjson.dumps(event) + b"\n\n")
    return b"".join(events)


def no_token_event(number: int, asked: ChatAsked) -> bytes:
    """The event of an answer that has ended before its first token."""
    choice = {"index": 0, "delta": {"content": ""}, "finish_reason": asked.finish_reason}
    head = _head(number, asked, "chat.completion.chunk")
    return b"data: " + orjson.dumps(head | {"choices": [choice]}) + b"\n\n"


def usage_event(number: int, asked: ChatAsked) -> bytes:
    """The event that `include_usage` asks for."""
    head = _head(number, asked, "chat.completion.chunk")
    return b"data: " + orjson.dumps(head | {"choices": [], "usage": usage(asked)}) + b"\n\n"


def usage(asked: ChatAsked, made: int | None = None) -> dict[str, int]:
    """Tokens, in OpenAI's words, when so many are `made`; None: all."""
    made = len(asked.words) if made is None else made
    total = asked.prompt_tokens + made
    return {
        "prompt_tokens": asked.prompt_tokens,
        "completion_tokens": made,
        "total_tokens": total,
    }


def _head(number: int, asked: ChatAsked, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 0, "model": asked.model}


def _base64(vector: Vectors) -> str:
    return base64.b64encode(vector.astype("<f4", copy=False).tobytes()).decode("ascii")


def _spoilt(rows: Sequence[tuple[int, Vectors]], mode: Mode) -> list[tuple[int, Vectors]]:
    """`rows` as a broken server would give them."""
    at, vector = rows[-1]
    match mode:
        case "nan":
            bad = vector.copy()
            bad[0] = np.nan
            return [*rows[:-1], (at, bad)]
        case "zero":
            return [*rows[:-1], (at, np.zeros_like(vector))]
        case "wrong_dim":
            return [(index, one[: len(one) // 2]) for index, one in rows]
        case "short":
            return list(rows[:-1])
        case "doubled":
            return [*rows[:-1], (0, vector)] if len(rows) > 1 else [*rows, *rows]
        case "shuffled":
            return list(reversed(rows))
