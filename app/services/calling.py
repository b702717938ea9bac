"""One call of a micro-batch to its endpoint, with no transaction open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app import clock, errors
from app.domain.inference import ChatReply, ChatRequest, EmbedReply, EmbedRequest, rough_tokens
from app.inference.wire import Wire
from app.inference.wires import Wires
from app.kinds.base import Read, Unit
from app.services.work import Work

_HONOUR_PRIORITY = frozenset({"vllm", "simulated"})
"""Kinds of endpoint that schedule by `priority`; a lower number runs first, people have 0."""
_BATCH_PRIORITY = 10


def called(wires: Wires, work: Work, batch: Sequence[Unit], deadline_s: float) -> Read:
    """What the kind reads in the endpoint's answer. Raises a leaf of EndpointError."""
    request = work.kind.request(batch, work.params)
    wire = wires.of(work.claimed.endpoint)
    reply: EmbedReply | ChatReply
    if isinstance(request, EmbedRequest):
        dimension = work.collection.dimension if work.collection else None
        reply = wire.embed(request, deadline_s=deadline_s, dim=dimension)
    else:
        reply = _streamed(work, wire, request, deadline_s)
    return work.kind.read(batch, reply, work.params)


def _streamed(work: Work, wire: Wire, request: ChatRequest, deadline_s: float) -> ChatReply:
    """A chat that is closed at once when its place is wanted back; what it gave is counted."""
    if work.claimed.endpoint.kind in _HONOUR_PRIORITY:
        request = replace(request, priority=_BATCH_PRIORITY)
    pieces: list[str] = []

    def on_first_token() -> None:
        work.first_token_s = clock.monotonic_s() - work.called_at

    work.held.streams = work.claimed.job.may_yield
    try:
        return wire.chat(
            request,
            deadline_s=deadline_s,
            on_first_token=on_first_token,
            on_text=pieces.append,
            cancelled=work.held.close,
        )
    except errors.Abandoned:
        given = sum(rough_tokens(message.content) for message in request.messages)
        work.wasted += given + len(pieces)
        raise
    finally:
        work.held.streams = False
