"""Reading the bodies of OpenAI-compatible servers: vectors, completions, streams of events."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np
import orjson

from app import errors
from app.domain.inference import (
    ChatReply,
    ChatRequest,
    EmbedReply,
    EmbedRequest,
    Usage,
    checked_vectors,
    rough_tokens,
)

_LONGEST_LINE = 8 * 1024 * 1024
_MOST_TOKENS = 100_000_000
"""Of one call; a server that tells more has miscounted, and a column holds no more than 2^31."""


def parsed(body: bytes | bytearray) -> Mapping[str, Any]:
    """A JSON object. Raises BadReply for anything else."""
    value = any_json(body)
    if not isinstance(value, dict):
        raise errors.BadReply(f"the reply is JSON, but no object: {type(value).__name__}")
    return value


def any_json(body: bytes | bytearray) -> Any:
    """What `body` says in JSON. Raises BadReply where it is none."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise errors.BadReply(f"the reply of {len(body)} bytes is not JSON") from error


def embed_reply(value: Mapping[str, Any], request: EmbedRequest, dim: int | None) -> EmbedReply:
    """The checked vectors of a reply, base64 or lists. Raises BadReply."""
    data = value.get("data")
    if not isinstance(data, list):
        raise errors.BadReply("the reply has no list `data`")
    vectors = checked_vectors(_indexed(data), len(request.texts), dim)
    usage = _usage(value.get("usage"), request.texts, None)
    return EmbedReply(vectors, usage, _model(value, request.model))


_LONGEST_WORD = 64


def chat_reply(value: Mapping[str, Any], request: ChatRequest) -> ChatReply:
    """The first choice of a reply that did not stream. Raises BadReply."""
    try:
        choice = value["choices"][0]
        text = choice["message"]["content"] or ""
        reason = choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise errors.BadReply("the reply has no choices[0].message.content") from error
    if not isinstance(text, str):
        raise errors.BadReply(f"the reply's content is {type(text).__name__}, not text")
    return ChatReply(
        text, _word(reason), _chat_usage(value, request, text), _model(value, request.model)
    )


@dataclass(slots=True)
class SoFar:
    """What has come of a completion: its text in pieces, why it ended (None: it has not), whether
    the model has reasoned before it, and the last event that told tokens."""

    pieces: list[str] = field(default_factory=list, repr=False)
    reason: str | None = None
    reasons: bool = False
    told: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.pieces)

    def usage(self, request: ChatRequest) -> Usage:
        """Tokens of the call by now; where the server tells none, a piece is one."""
        told = _chat_usage(self.told, request, None)
        made = max(told.completion_tokens, len(self.pieces))
        return replace(told, completion_tokens=made)


class Streamed:
    """A completion put together from its events.

    `on_first_token` is called once, at the first text (or reasoning) of the model; `on_text` with
    each piece of text; `so_far` holds what has come.
    """

    def __init__(
        self,
        request: ChatRequest,
        on_first_token: Callable[[], None] | None = None,
        on_text: Callable[[str], None] | None = None,
        so_far: SoFar | None = None,
    ) -> None:
        self._request = request
        self._on_first_token = on_first_token
        self._on_text = on_text
        self._so_far = SoFar() if so_far is None else so_far
        self._model = request.model

    @property
    def is_finished(self) -> bool:
        return self._so_far.reason is not None

    def add(self, event: Mapping[str, Any]) -> None:
        """Take in one event. Raises BadReply where it has not the shape of a chunk."""
        self._model = _model(event, self._model)
        if isinstance(event.get("usage"), Mapping):
            self._so_far.told = event
        try:
            for choice in event.get("choices") or ():
                reason = _word(choice.get("finish_reason"))
                self._so_far.reason = reason or self._so_far.reason
                self._take(choice.get("delta") or {})
        except (AttributeError, TypeError) as error:
            raise errors.BadReply("an event of the stream is no completion chunk") from error

    def _take(self, delta: Mapping[str, Any]) -> None:
        text = delta.get("content") or ""
        if not isinstance(text, str):
            raise errors.BadReply("an event of the stream has content that is no text")
        reasons = bool(delta.get("reasoning_content") or delta.get("reasoning"))
        self._so_far.reasons |= reasons
        if text or reasons:
            self.began()
        if text:
            self._so_far.pieces.append(text)
            if self._on_text is not None:
                self._on_text(text)

    def began(self) -> None:
        """The model's first token is here."""
        if self._on_first_token is not None:
            self._on_first_token()
            self._on_first_token = None

    def whole(self, value: Mapping[str, Any]) -> ChatReply:
        """The reply of a server that ignored `stream`: all at once, callbacks included."""
        reply = chat_reply(value, self._request)
        self.began()
        if self._on_text is not None and reply.text:
            self._on_text(reply.text)
        return reply

    def reply(self) -> ChatReply:
        """What the events came to."""
        text = self._so_far.text
        usage = _chat_usage(self._so_far.told, self._request, text)
        return ChatReply(text, self._so_far.reason, usage, self._model)


def event_data(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The `data` of each server-sent event in `chunks`, however they are cut.

    One line an event, as every OpenAI-compatible server writes them. Raises BadReply for a line
    that has no end.
    """
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()
        if len(rest) > _LONGEST_LINE:
            raise errors.BadReply(f"a line of the stream is longer than {_LONGEST_LINE} bytes")
    if rest.startswith(b"data:"):
        yield rest[5:].strip()


def _indexed(data: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    for place, entry in enumerate(data):
        try:
            index, vector = entry.get("index", place), entry["embedding"]
        except (AttributeError, KeyError, TypeError) as error:
            raise errors.BadReply(f"entry {place} of `data` has no embedding") from error
        if not isinstance(index, int):
            raise errors.BadReply(f"entry {place} of `data` has an index that is no number")
        yield index, _decoded(index, vector) if isinstance(vector, str) else vector


def _decoded(index: int, text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    try:
        return np.frombuffer(binascii.a2b_base64(text), dtype="<f4")
    except ValueError as error:
        raise errors.BadReply(f"vector {index} is not base64 of 32-bit floats") from error


def _chat_usage(value: Mapping[str, Any], request: ChatRequest, text: str | None) -> Usage:
    return _usage(value.get("usage"), [message.content for message in request.messages], text)


def _usage(said: object, sent: Iterable[str], text: str | None) -> Usage:
    if isinstance(said, Mapping):
        prompt, completion = said.get("prompt_tokens"), said.get("completion_tokens") or 0
        if _is_count(prompt) and _is_count(completion) and prompt > 0:
            return Usage(prompt, completion)
    return Usage(sum(map(rough_tokens, sent)), rough_tokens(text) if text else 0, rough=True)


def _is_count(value: object) -> TypeGuard[int]:
    """Whether `value` can be a number of tokens: whole, and of a size that a call may have."""
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return 0 <= value <= _MOST_TOKENS


def _model(value: Mapping[str, Any], asked: str) -> str:
    model = value.get("model")
    return model if isinstance(model, str) and model else asked


def _word(value: object) -> str | None:
    """`value`, if it is a word as servers have them; what Postgres could refuse is none."""
    is_word = isinstance(value, str) and len(value) <= _LONGEST_WORD and value.isprintable()
    return str(value) if is_word else None
