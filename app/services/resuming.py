"""Answers that go on from what a closed call had given: what is asked, what is kept and counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.domain.cleaning import is_blank
from app.domain.inference import ChatReply, ChatRequest
from app.domain.pricing import money
from app.domain.resuming import (
    CONTINUING,
    SURE,
    Begun,
    anew,
    begun,
    closed_tokens,
    going_on,
    hash_of,
    is_whole,
    may_begin,
)
from app.domain.routing import EndpointSpec, serving
from app.errors import BadParams
from app.inference.streaming import SoFar
from app.kinds.base import Call, Unit
from app.services.work import Closed, Work


@dataclass(frozen=True, slots=True)
class Resumable:
    """A call of one item, whose answer may come in parts. `before` is what it goes on from."""

    seq: int
    request: ChatRequest
    before: Begun | None
    kind: str
    """The endpoint's."""

    @property
    def sent(self) -> ChatRequest:
        """What is asked of the endpoint."""
        request = replace(self.request, counts=self.kind in SURE)
        return request if self.before is None else going_on(request, self.before, self.kind)

    def whole(self, work: Work, reply: ChatReply) -> ChatReply | None:
        """The answer of which `reply` is the rest; the beginning is used up then.

        None: the answer was begun anew after all, and cut off where only the rest had room.
        """
        if self.before is None:
            return reply
        if anew(self.before, reply.text, self.kind):
            return None if reply.finish_reason == "length" else reply
        work.carried = self.before.tokens
        del work.begun[self.seq]
        return replace(reply, text=self.before.text + reply.text)

    def closed(self, work: Work, so_far: SoFar) -> ChatReply | None:
        """The call was closed when so much had come: the rest where that was all, else None.

        What is worth it is noted in `work`, to be kept when the chunk goes back, with the tokens
        that are waste all the same.
        """
        usage, text = so_far.usage(self.sent), so_far.text
        made = usage.completion_tokens
        before = None if anew(self.before, text, self.kind) else self.before
        has_text = before is not None or not is_blank(text)
        if has_text and (so_far.reason is not None or is_whole(self.request, before, made)):
            return ChatReply(text, so_far.reason or "length", usage, self.request.model)
        kept = None
        if not so_far.reasons:
            kept = begun(self.request, before, text, made, self.kind)
        if kept is not None:
            stored = work.begun.get(self.seq)
            tokens = closed_tokens(usage.prompt_tokens, made, kept, before, stored)
            cost = money(work.claimed.endpoint, usage.prompt_tokens, made)
            work.closed = Closed(self.seq, kept, usage, tokens.made, cost)
            work.wasted += tokens.wasted
        return None


def resumable(work: Work, batch: Sequence[Unit], request: Call) -> Resumable | None:
    """How the answer to `request` may come in parts; None: not at all, by its job or its endpoint.

    What has failed before is asked from the start: perhaps the going on was what failed.
    """
    kind, may = work.claimed.endpoint.kind, work.claimed.job.resume_streamed
    if not may or kind not in CONTINUING or work.lease.attempt > 0 or len(batch) != 1:
        return None
    if not isinstance(request, ChatRequest) or not may_begin(request):
        return None
    seq = batch[0].item.seq
    before = work.begun.get(seq)
    if before is not None and before.asked != hash_of(request):
        before = None
    return Resumable(seq, request, before, kind)


def check_resumes(models: Sequence[str], specs: Sequence[EndpointSpec]) -> None:
    """BadParams: no call of `models` at these endpoints can go on from what another had given."""
    if not any(spec.kind in CONTINUING for name in models for spec in serving(name, specs)):
        raise BadParams(
            f"no endpoint that serves {', '.join(models)} goes on with an answer that was begun; "
            f"those of kind {', '.join(sorted(CONTINUING))} do; leave out --resume-streamed"
        )
