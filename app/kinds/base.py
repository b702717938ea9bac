"""What a kind of job is: its parameters, what it asks of an endpoint, and how it reads the answer.

A kind is one file in this package that defines `KIND`; nothing else is edited. It is pure: no
database, no network, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from app.domain.inference import ChatReply, ChatRequest, EmbedReply, EmbedRequest, Vectors
from app.domain.results import Item, ItemResult
from app.errors import BadParams


class Params(BaseModel):
    """Base of every kind's parameters: frozen, and closed against misspelt names.

    The docstring under a field is its help on the command line.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    model: str
    """The model that serves the job; some endpoint must serve it."""


@dataclass(frozen=True, slots=True)
class Unit:
    """An item made ready to send: its text, a rough count of tokens, and its content hash."""

    item: Item
    text: str
    tokens: int
    content_hash: bytes


@dataclass(frozen=True, slots=True)
class Prepared:
    """`units` are to be sent; `results` are those of items that need no call."""

    units: list[Unit]
    results: list[ItemResult]


@dataclass(frozen=True, slots=True)
class Read:
    """What an answer says: a result a unit, in order, and for embeddings the vectors (n, dim).

    Tokens are those of the whole call.
    """

    results: list[ItemResult]
    vectors: Vectors | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Kind(Protocol):
    """One kind of job."""

    @property
    def name(self) -> str:
        """The stable word for it: in commands, task names and rows."""
        ...

    @property
    def params(self) -> type[Params]:
        """The model of its parameters."""
        ...

    @property
    def together(self) -> bool:
        """Whether one request may hold many items; else each item is a request of its own."""
        ...

    def collection(self, params: Any) -> str | None:
        """The collection its vectors go to; None: it makes no vectors."""
        ...

    def prepare(self, items: Sequence[Item], params: Any) -> Prepared:
        """Make items ready to send; those that need no call get their result here."""
        ...

    def request(self, units: Sequence[Unit], params: Any) -> EmbedRequest | ChatRequest:
        """The request for a micro-batch."""
        ...

    def read(self, units: Sequence[Unit], reply: EmbedReply | ChatReply, params: Any) -> Read:
        """The results in an answer. Raises errors.BadReply where it cannot be right."""
        ...


def checked(kind: Kind, raw: Mapping[str, Any]) -> Params:
    """`raw` as the kind's parameters; BadParams names each fault and the known names."""
    try:
        return kind.params.model_validate(dict(raw))
    except ValidationError as error:
        known = ", ".join(sorted(kind.params.model_fields))
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or kind.name}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False)
        )
        raise BadParams(f"{kind.name}: {faults}; known parameters: {known}") from None
