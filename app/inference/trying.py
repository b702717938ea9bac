"""Trying an endpoint with real requests: what it can do, one finding a check."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app import errors
from app.clock import monotonic_s
from app.domain.inference import ChatRequest, EmbedRequest, Message
from app.domain.resuming import CONTINUING, Begun, anew, going_on
from app.inference.wire import Wire

_TEXTS = ("A river runs to the sea.", "The stone is cold.", "Bread and salt.")
_ASK = (Message("user", "Count from one to five in words."),)
_MAX_TOKENS = 16
_TELL = (Message("user", "Tell what a river is, from its spring to the sea."),)
_TELL_TOKENS = 48
_VERSION = re.compile(r"/v\d+\w*(/|$)|/openai$")
"""How addresses of OpenAI's API end, or go on: /v1, /v1beta/openai, /compatible-mode/v1."""
_HEALTH = frozenset({"vllm", "tei", "llamacpp", "simulated"})
_NOT_OF_THAT_SORT = frozenset({"bad_request", "model_missing", "server_error"})
"""How servers answer a chat with an embedding model, or the other way round."""


@dataclass(frozen=True, slots=True)
class Check:
    """What one check found. `needed` False: work goes on without it, only less well."""

    name: str
    ok: bool
    needed: bool
    detail: str
    ms: float


def tried(
    wire: Wire, kind: str, models: Sequence[str], embeds: Callable[[str], bool], deadline_s: float
) -> Iterator[Check]:
    """Each check as it is made. `models` empty: whatever the server lists, the first of each sort.

    `embeds` tells by a model's name what to try first; the other is tried where that is refused.
    Some servers list no models, or under other names: the requests show whether they serve them.
    """
    reached = _checked("reachable", lambda: _reached(wire, kind, deadline_s))
    yield reached
    if not reached.ok:
        return
    listed: list[str] = []
    yield _checked("models", lambda: _listed(wire, models, listed, deadline_s), needed=not models)
    for model in models or _one_of_each(listed, embeds):
        yield from _of_model(wire, kind, model, deadline_s, first_embeds=embeds(model))


def versioned(base_url: str) -> str | None:
    """`base_url` with the version part that it may lack; None: it has one."""
    plain = base_url.rstrip("/")
    return None if _VERSION.search(plain) else f"{plain}/v1"


def suggested(wire: Wire, url: str, deadline_s: float) -> Check | None:
    """After a failure: whether `wire`, at `url`, lists models; None: it does not either."""
    found = _checked("base_url", lambda: ", ".join(wire.models(deadline_s=deadline_s)))
    if not found.ok:
        return None
    said = f"the server answers at {url}: set base_url (or --url) to that; it has {found.detail}"
    return Check("base_url", False, True, said, found.ms)


def _of_model(
    wire: Wire, kind: str, model: str, deadline_s: float, *, first_embeds: bool
) -> Iterator[Check]:
    embedding, chatting = _embedding(wire, model, deadline_s), _chatting(wire, model, deadline_s)
    order = (embedding, chatting) if first_embeds else (chatting, embedding)
    first = _checked(*order[0])
    other = _code(first) in _NOT_OF_THAT_SORT
    second = _checked(*order[1]) if other else first
    yield second if second.ok else first
    if not second.ok:
        return
    if second.name.startswith("embedding"):
        yield _checked(f"batch, {model}", lambda: _batch(wire, model, deadline_s))
        yield _checked(f"base64, {model}", lambda: _base64(wire, model, deadline_s), needed=False)
        yield _checked(
            f"usage, {model}", lambda: _embed_usage(wire, model, deadline_s), needed=False
        )
    else:
        yield _checked(
            f"streaming, {model}", lambda: _streams(wire, model, deadline_s), needed=False
        )
        if kind in CONTINUING:
            yield _checked(
                f"going on, {model}", lambda: _goes_on(wire, kind, model, deadline_s), needed=False
            )


def _code(check: Check) -> str:
    """Its error's code; empty: it went well."""
    return "" if check.ok else check.detail.partition(":")[0]


def _checked(name: str, act: Callable[[], str], needed: bool = True) -> Check:
    began_s = monotonic_s()
    try:
        detail, ok = act(), True
    except errors.EndpointError as error:
        detail, ok = f"{error.code}: {error}", False
    return Check(name, ok, needed, detail, round((monotonic_s() - began_s) * 1000, 1))


def _reached(wire: Wire, kind: str, deadline_s: float) -> str:
    if kind in _HEALTH:
        wire.health(deadline_s=deadline_s)
        return "/health says that it is well"
    try:
        wire.models(deadline_s=deadline_s)
    except (errors.ModelMissing, errors.BadReply):  # It answers, if not with a list.
        return "it answers"
    return "it lists its models"


def _listed(wire: Wire, models: Sequence[str], listed: list[str], deadline_s: float) -> str:
    listed += wire.models(deadline_s=deadline_s)
    missing = [model for model in models if model not in listed]
    if missing:
        raise errors.ModelMissing(
            f"not listed: {', '.join(missing)}; the server has {', '.join(listed) or 'none'}"
        )
    return ", ".join(listed) or "none"


def _one_of_each(listed: Sequence[str], embeds: Callable[[str], bool]) -> list[str]:
    sorts: dict[bool, str] = {}
    for model in listed:
        sorts.setdefault(embeds(model), model)
    return list(sorts.values())


def _embedding(wire: Wire, model: str, deadline_s: float) -> tuple[str, Callable[[], str]]:
    def act() -> str:
        reply = wire.embed(EmbedRequest(model, _TEXTS[:1]), deadline_s=deadline_s)
        return f"a vector of {reply.vectors.shape[1]} numbers"

    return f"embedding, {model}", act


def _chatting(wire: Wire, model: str, deadline_s: float) -> tuple[str, Callable[[], str]]:
    def act() -> str:
        asked = ChatRequest(model, _ASK, max_tokens=_MAX_TOKENS, may_be_silent=True)
        usage = wire.chat(asked, deadline_s=deadline_s).usage
        told = "its usage is told" if not usage.rough else "it tells no usage: counts are rough"
        return f"{usage.completion_tokens} tokens; {told}"

    return f"chat, {model}", act


def _batch(wire: Wire, model: str, deadline_s: float) -> str:
    reply = wire.embed(EmbedRequest(model, _TEXTS), deadline_s=deadline_s)
    return f"{len(_TEXTS)} texts in one request, {reply.vectors.shape[0]} vectors in their order"


def _base64(wire: Wire, model: str, deadline_s: float) -> str:
    if "encoding_format" in wire.refused(model):
        raise errors.BadRequest("it takes lists of numbers only: replies are five times as long")
    value = wire.raw_embedding(model, _TEXTS[0], deadline_s=deadline_s)
    if not isinstance(value, str):
        raise errors.BadReply("it answers in lists of numbers: replies are five times as long")
    return "vectors come as base64"


def _embed_usage(wire: Wire, model: str, deadline_s: float) -> str:
    usage = wire.embed(EmbedRequest(model, _TEXTS[:1]), deadline_s=deadline_s).usage
    if usage.rough:
        raise errors.BadReply("it tells no usage: tokens are counted roughly")
    return f"{usage.prompt_tokens} tokens for {len(_TEXTS[0])} characters"


def _streams(wire: Wire, model: str, deadline_s: float) -> str:
    pieces: list[str] = []
    asked = ChatRequest(model, _ASK, max_tokens=_MAX_TOKENS, may_be_silent=True)
    wire.chat(asked, deadline_s=deadline_s, on_text=pieces.append)
    if len(pieces) < 2:
        raise errors.BadReply("the answer comes in one piece: a call cannot be closed in between")
    return f"the answer comes in {len(pieces)} pieces"


def _goes_on(wire: Wire, kind: str, model: str, deadline_s: float) -> str:
    asked = ChatRequest(model, _TELL, max_tokens=_TELL_TOKENS, temperature=0.0)
    whole = wire.chat(asked, deadline_s=deadline_s).text
    half = whole[: len(whole) // 2].rstrip()
    rest = wire.chat(
        going_on(asked, Begun(b"", half, _TELL_TOKENS // 2), kind), deadline_s=deadline_s
    )
    if anew(Begun(b"", half, 0), rest.text, ""):
        raise errors.BadReply("it begins anew: leave --resume-streamed out")
    return "it goes on with an answer that was begun"
