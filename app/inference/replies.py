"""Reading the bodies of OpenAI-compatible servers: JSON, vectors, tokens."""

from __future__ import annotations

import binascii
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
import orjson

from app import errors
from app.domain.endings import failure_in
from app.domain.inference import (
    ChatRequest,
    EmbedReply,
    EmbedRequest,
    Usage,
    checked_vectors,
    rough_tokens,
)

LARGEST_REPLY = 512 * 1024 * 1024
"""Bytes."""
_LONGEST_WORD = 64
_MOST_TOKENS = 100_000_000
"""Of one call; a server that tells more has miscounted, and a column holds no more than 2^31."""


def parsed(body: bytes | bytearray) -> Mapping[str, Any]:
    """A JSON object. Raises BadReply for anything else."""
    value = any_json(body)
    if not isinstance(value, dict):
        raise errors.BadReply(f"the reply is JSON, but no object: {type(value).__name__}")
    return value


def any_json(body: bytes | bytearray) -> Any:
    """What `body` says in JSON. Raises BadReply where it is none.

    Half a character, which JSON may name and UTF-8 has no bytes for, stays as it is.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        try:
            text = body.decode("utf-8", "surrogatepass").removeprefix("\ufeff")
            return json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise errors.BadReply(f"the reply of {len(body)} bytes is not JSON") from error


def answered(body: bytes | bytearray, sent: Sequence[str] = ()) -> Mapping[str, Any]:
    """A JSON object that is an answer. Raises the leaf that an error in it stands for, BadReply for
    anything else; `sent` are the texts of the request."""
    value = parsed(body)
    failure = failure_in(value, sent)
    if failure is not None:
        raise failure
    return value


def embed_reply(value: Mapping[str, Any], request: EmbedRequest, dim: int | None) -> EmbedReply:
    """The checked vectors of a reply, base64 or lists. Raises BadReply."""
    data = value.get("data")
    if not isinstance(data, list):
        raise errors.BadReply("the reply has no list `data`")
    vectors = checked_vectors(_indexed(data), len(request.texts), dim)
    usage = _usage(value.get("usage"), request.texts, None)
    return EmbedReply(vectors, usage, model_of(value, request.model))


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


def chat_usage(value: Mapping[str, Any], request: ChatRequest, text: str | None) -> Usage:
    """Tokens of a chat as `value` tells them, or a guess; `text` is its answer, None: not there."""
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


def model_of(value: Mapping[str, Any], asked: str) -> str:
    """The model that answers by its own word; `asked` where it says none that could be stored."""
    model = value.get("model")
    return model if isinstance(model, str) and model and model.isprintable() else asked


def reason_of(value: object) -> str | None:
    """Why an answer ended, if `value` is a word as servers have them; SGLang may wrap it. What
    Postgres could refuse is none."""
    if isinstance(value, Mapping):
        value = value.get("type")
    is_word = isinstance(value, str) and len(value) <= _LONGEST_WORD and value.isprintable()
    return str(value) if is_word and value else None


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number in JSON")
