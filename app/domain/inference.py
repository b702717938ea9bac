"""What is asked of an endpoint and what it answers, as values, with the checks on vectors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app import errors

Vectors = NDArray[np.float32]
"""(n, dim), one row a text."""


@dataclass(frozen=True, slots=True)
class EmbedRequest:
    """Vectors wanted for `texts`, in that order. No text may be blank: servers refuse those.

    `priority` is the endpoint's own, as of a `ChatRequest`.
    """

    model: str
    texts: tuple[str, ...]
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat. `role` is system, user or assistant."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A completion wanted. None leaves a field out, so that the server's own default holds.

    `response_format` goes over as it is (OpenAI's shape). `priority` is the endpoint's own: on vLLM
    the lower value runs first. `goes_on`: the server is told to go on with the last
    message, the assistant's. `counts`: tokens are wanted with every piece of the answer.
    `may_be_silent`: an answer without any text will do.
    """

    model: str
    messages: tuple[Message, ...]
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    response_format: Mapping[str, Any] | None = None
    priority: int | None = None
    goes_on: bool = False
    counts: bool = False
    may_be_silent: bool = False


def texts_of(request: EmbedRequest | ChatRequest) -> tuple[str, ...]:
    """All that is sent to be read."""
    if isinstance(request, EmbedRequest):
        return request.texts
    return tuple(message.content for message in request.messages)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call. `rough` says that the server told nothing and we guessed."""

    prompt_tokens: int
    completion_tokens: int
    rough: bool = False

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        """Tokens of both calls."""
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.rough or other.rough,
        )


@dataclass(frozen=True, slots=True, eq=False)
class EmbedReply:
    """`vectors` is (n, dim), rows in the order of the request's texts, already checked."""

    vectors: Vectors
    usage: Usage
    model: str


@dataclass(frozen=True, slots=True)
class ChatReply:
    """`finish_reason` is the server's word (stop, length, …), None where it gave none.

    `text` is as the model gave it: see `cleaning` for what cannot be stored of it. `tool_calls`
    are in OpenAI's shape, put together from their pieces, and clean.
    """

    text: str
    finish_reason: str | None
    usage: Usage
    model: str
    tool_calls: tuple[Mapping[str, Any], ...] = ()


def rough_tokens(text: str) -> int:
    """A guess at the tokens of `text`, four characters each; at least 1."""
    return max(1, math.ceil(len(text) / 4))


def checked_vectors(
    indices_and_vectors: Iterable[tuple[int, Sequence[float] | NDArray[Any]]],
    n: int,
    dim: int | None = None,
) -> Vectors:
    """The vectors of a reply as (n, dim) float32, each on the row of its own index.

    `n` is how many texts were sent; `dim` is the length expected, None if any will do (but one for
    all). Raises BadReply, naming what is wrong, for too few or too many vectors, an index that
    comes twice or is out of range, NaN or infinity, a vector of nothing but zeros, a wrong length.
    """
    rows: list[NDArray[Any] | None] = [None] * n
    count = 0
    for index, vector in indices_and_vectors:
        count += 1
        if not 0 <= index < n:
            raise errors.BadReply(f"vector index {index} is out of range; {n} texts were sent")
        if rows[index] is not None:
            raise errors.BadReply(f"vector index {index} comes twice")
        rows[index] = _numbers(index, vector)
    present = [row for row in rows if row is not None]
    if len(present) < n:
        missing = next(index for index, row in enumerate(rows) if row is None)
        raise errors.BadReply(f"{count} vectors for {n} texts; the first without one is {missing}")
    if not present:
        return np.zeros((0, dim or 0), dtype=np.float32)
    return _sound(_stacked(present, dim))


def _numbers(index: int, vector: Sequence[float] | NDArray[Any]) -> NDArray[Any]:
    try:
        return np.asarray(vector, dtype=np.float32)
    except (TypeError, ValueError, OverflowError):
        raise errors.BadReply(f"vector {index} is not a list of numbers") from None


def _stacked(rows: Sequence[NDArray[Any]], dim: int | None) -> Vectors:
    expected = (dim,) if dim is not None else (rows[0].size,)
    for index, row in enumerate(rows):
        if row.shape != expected or row.size == 0:
            found = f"{row.size} numbers" if row.ndim == 1 else f"the shape {row.shape}"
            told = f"vector {index} has {found}; {expected[0]} numbers expected"
            raise errors.BadReply(told, doubtful=dim is not None)
    return np.stack(rows)


def _sound(vectors: Vectors) -> Vectors:
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        raise errors.BadReply(f"vector {int(np.argmin(finite))} holds NaN or infinity")
    filled = vectors.any(axis=1)
    if not filled.all():
        raise errors.BadReply(f"vector {int(np.argmin(filled))} is nothing but zeros")
    return vectors
