"""A probe: whether an endpoint is there again, and answers a request of the kind it failed."""

from __future__ import annotations

from app import errors
from app.clock import monotonic_s
from app.domain.inference import ChatRequest, EmbedRequest, Message
from app.domain.rates import Cost
from app.inference.wire import Wire

_WITH_HEALTH = frozenset({"vllm", "tei", "llamacpp", "simulated"})
"""Kinds of server whose /health says whether the engine runs; the others list their models."""
_TEXTS = ("a river", "a stone")
"""Two, so that a reply which lacks its last vector is seen for what it is."""

_TOKENS = 32
"""More than a probe's request and its answer come to, with whatever a template puts around it."""


def probe_cost(task: str | None, model: str | None) -> Cost:
    """What a probe takes of the endpoint's rate budget, at most."""
    asks = task is not None and model is not None
    return Cost(_TOKENS, 2) if asks else Cost(0, 1)


def probe(
    wire: Wire, kind: str, task: str | None, model: str | None, *, deadline_s: float
) -> errors.EndpointError | None:
    """What is wrong with the endpoint behind `wire`; None: nothing that a probe can see.

    `task` (chat or embed) and `model` are those of the request that failed last: a server whose
    vectors are NaN answers /health quite well.
    """
    until_s = monotonic_s() + deadline_s
    try:
        if kind in _WITH_HEALTH:
            wire.health(deadline_s=deadline_s)
        else:
            wire.models(deadline_s=deadline_s)
        left_s = max(0.1, until_s - monotonic_s())
        if task == "embed" and model is not None:
            wire.embed(EmbedRequest(model, _TEXTS), deadline_s=left_s)
        if task == "chat" and model is not None:
            ask = (Message("user", "Say yes."),)
            asked = ChatRequest(model, ask, max_tokens=1, may_be_silent=True)
            wire.chat(asked, deadline_s=left_s)
    except errors.EndpointError as error:
        return error
    return None
