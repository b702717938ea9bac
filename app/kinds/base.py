"""What a kind of job is: its parameters, what it asks of an endpoint, and how it reads the answer.

A kind is one file in this package that defines `KIND`; nothing else is edited. It is pure: no
database, no network, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from pydantic import BaseModel, ConfigDict, ValidationError

from app.domain.cleaning import is_blank
from app.domain.fingerprint import ContentHash
from app.domain.inference import (
    ChatReply,
    ChatRequest,
    EmbedReply,
    EmbedRequest,
    Vectors,
    rough_tokens,
)
from app.domain.results import Item, ItemResult, Status
from app.errors import BadParams

Call: TypeAlias = EmbedRequest | ChatRequest
"""One request to an endpoint."""
Answer: TypeAlias = EmbedReply | ChatReply
"""What an endpoint gives for a call."""


class Params(BaseModel):
    """Base of every kind's parameters: frozen, and closed against misspelt names.

    The docstring under a field is its help on the command line.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    model: str
    """The model that serves the job; some endpoint must serve it."""


@dataclass(frozen=True, slots=True)
class Unit:
    """An item made ready to send: its text, a rough count of tokens, and its content hash.

    A long text may be several units: pieces number `piece`, from 0, each `begins` to `ends` in the
    item's text (None: all of it), all with the hash of the whole. The item's result comes with the
    unit that is its `last`.
    """

    item: Item
    text: str
    tokens: int
    content_hash: bytes
    piece: int = 0
    begins: int | None = None
    ends: int | None = None
    last: bool = True


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


@dataclass(frozen=True, slots=True)
class Calls:
    """What an item of several steps asks next, by the name of the step.

    None of them needs the answer of another. Names are the item's own and stable (`map:0003`,
    `judge:1:ab`): an answer is stored under its name, and a name that is stored is never asked
    again.
    """

    by_name: Mapping[str, Call]


class Kind(Protocol):
    """One kind of job. It is a `OneCall`, or a `ManySteps` whose items need several calls each.

    It may say in `chunk_items` how many items are leased together; left out, that is chosen.
    """

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


@runtime_checkable
class OneCall(Kind, Protocol):
    """A kind whose items need one call each, or share one."""

    def request(self, units: Sequence[Unit], params: Any) -> Call:
        """The request for a micro-batch."""
        ...

    def read(self, units: Sequence[Unit], reply: Answer, params: Any) -> Read:
        """The results in an answer. Raises errors.BadReply where it cannot be right."""
        ...


@runtime_checkable
class ManySteps(Kind, Protocol):
    """A kind whose items need several calls, some of them known only from earlier answers.

    Such an item is a unit of its own (`together` is False) and makes no vectors for a collection.
    """

    def step(self, item: Item, done: Mapping[str, Any], params: Any) -> Calls | ItemResult:
        """What comes next for an item whose answers so far are `done`: calls, or its result.

        A chat stands in `done` as {"text", "finish_reason"}, vectors as a list of lists. Pure: the
        same arguments give the same names, requests and result. It is asked again once every
        call it named is answered, and it must end. Tokens are counted for it.
        """
        ...


def models_of(kind: Kind, params: Params) -> tuple[str, ...]:
    """The models that a job calls, the one that decides about its pool first; none: no call.

    A kind that calls others than `params.model` has `models(params)`, which says so.
    """
    said = getattr(kind, "models", None)
    return (params.model,) if said is None else tuple(dict.fromkeys(said(params)))


def fields_of(kind: Kind, params: Params) -> Mapping[str, bool]:
    """Fields of an item that the kind looks at beside `text`, and whether each item must have them.

    A kind that looks at some has `fields(params)`, which says so.
    """
    said = getattr(kind, "fields", None)
    return {} if said is None else dict(said(params))


def warning_of(kind: Kind, params: Params) -> str | None:
    """What is lawful in `params` and most likely a slip, in words; None: nothing.

    A kind that knows of some has `warning(params)`, which says so.
    """
    said = getattr(kind, "warning", None)
    return None if said is None else said(params)


def by_text(items: Sequence[Item], params: Params) -> Prepared:
    """`prepare` for a kind that sends each item's text as it is; a blank one is never sent."""
    hashes = ContentHash(params.model_dump(mode="json"))
    units: list[Unit] = []
    results: list[ItemResult] = []
    for item in items:
        text = str(item.payload.get("text", ""))
        if is_blank(text):
            results.append(ItemResult(item.seq, Status.EMPTY, code="empty"))
        else:
            units.append(Unit(item, text, rough_tokens(text), hashes.of(text)))
    return Prepared(units, results)


def checked(kind: Kind, raw: Mapping[str, Any]) -> Params:
    """`raw` as the kind's parameters; BadParams names each fault and the known names."""
    try:
        return kind.params.model_validate(dict(raw))
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)
        faults = "; ".join(
            ": ".join(filter(None, (".".join(map(str, fault["loc"])), _said(fault["msg"]))))
            for fault in found
        )
        is_name = any(fault["type"] in ("extra_forbidden", "missing") for fault in found)
        known = f"; known parameters: {', '.join(sorted(kind.params.model_fields))}"
        raise BadParams(f"{kind.name}: {faults}{known * is_name}") from None


def _said(message: str) -> str:
    """What pydantic says, without its word for an error of ours."""
    return message.removeprefix("Value error, ")
