"""Going on with an answer whose call was closed in the middle, instead of asking for it anew.

A server goes on where the last message is the assistant's own and unfinished. What it then gives is
the rest; both together are the answer.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace

from app.domain.cleaning import cleaned
from app.domain.fingerprint import canonical, fingerprint
from app.domain.inference import ChatRequest, Message

CONTINUING = frozenset({"vllm", "llamacpp", "ollama", "simulated"})
"""Kinds of endpoint that go on with an answer."""
TOLD = frozenset({"vllm", "llamacpp", "simulated"})
"""Those of them that are told to by fields of the request. llama.cpp goes on without, too, but then
newer ones give the beginning once more, and older ones do not know the fields."""
SURE = frozenset({"vllm", "simulated"})
"""Those that go on or refuse, and count tokens as they stream."""
_SURELY_ANEW = 40
"""Characters: an answer that repeats so long a beginning was begun anew."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The beginning of an answer. `asked` is the hash of the request that it answers, `tokens` how
    many the model made for it, over all calls that were closed."""

    asked: bytes
    text: str = field(repr=False)
    tokens: int


@dataclass(frozen=True, slots=True)
class ClosedTokens:
    """What becomes of the tokens of a call that was closed in the middle.

    `made` stay, as part of an answer; below 0 where a longer beginning is replaced, whose tokens
    were counted as made before. `wasted` are read or made again. Both together are the call's.
    """

    made: int
    wasted: int


def hash_of(request: ChatRequest) -> bytes:
    """16 bytes for all that an answer depends on: another model or prompt has another beginning."""
    value = {**asdict(replace(request, priority=None)), "response_format": None}
    return fingerprint("begun", canonical(value))


def may_begin(request: ChatRequest) -> bool:
    """Whether the answer may come in parts: a grammar would begin again in the middle of it."""
    return request.response_format is None


def anew(before: Begun | None, given: str, kind: str) -> bool:
    """Whether an endpoint of `kind` began anew instead of going on: what it gives is all of it.

    Of one that is not sure to go on it is seen by what it says, once that is long enough.
    """
    if before is None or kind in SURE:
        return False
    shared = min(len(before.text), len(given))
    return shared >= _SURELY_ANEW and before.text[:shared] == given[:shared]


def begun(
    request: ChatRequest, before: Begun | None, given: str, tokens: int, kind: str
) -> Begun | None:
    """What is kept of an answer to `request` of which a call has `given` so much, after `before`.

    None: it gave nothing that is worth keeping, too little to see that it went on, or too little
    to see that the next call does. White space at the end is left out: templates cut it off, and
    the model gives it again.
    """
    text = ((before.text if before else "") + given).rstrip()
    unsure = kind not in SURE and len(given.strip()) < _SURELY_ANEW
    if unsure or not given.strip() or cleaned(text).flags:
        return None
    return Begun(hash_of(request), text, tokens + (before.tokens if before else 0))


def closed_tokens(
    prompt_tokens: int,
    made_tokens: int,
    kept: Begun | None,
    before: Begun | None = None,
    stored: Begun | None = None,
) -> ClosedTokens:
    """How a closed call counts that read `prompt_tokens` and of which `kept` stays; None: nothing.

    The prompt is always waste: the next call reads it again. What the model made is waste only
    where nothing is kept of it. `before` is what the call went on from; None: it began anew, so
    that `kept` takes the place of what is `stored` of the item, whose tokens are waste then.
    """
    if kept is None:
        return ClosedTokens(0, prompt_tokens + made_tokens)
    replaced = stored.tokens if before is None and stored is not None else 0
    return ClosedTokens(made_tokens - replaced, prompt_tokens + replaced)


def is_whole(request: ChatRequest, before: Begun | None, tokens: int) -> bool:
    """Whether an answer of so many tokens after `before` is as long as it may become."""
    most = request.max_tokens
    return most is not None and tokens + (before.tokens if before else 0) >= most


def going_on(request: ChatRequest, before: Begun, kind: str) -> ChatRequest:
    """The request for the rest, no longer than the whole may be, for an endpoint of `kind`.

    There may be nothing left to say.
    """
    most = request.max_tokens
    return replace(
        request,
        messages=(*request.messages, Message("assistant", before.text)),
        max_tokens=None if most is None else most - before.tokens,
        goes_on=kind in TOLD,
        may_be_silent=True,
    )
