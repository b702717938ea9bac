"""One call of a micro-batch to its endpoint, with no transaction open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app import clock, errors
from app.domain.inference import ChatReply, ChatRequest, EmbedRequest, rough_tokens
from app.domain.pricing import money
from app.domain.resuming import closed_tokens
from app.domain.routing import EndpointSpec
from app.domain.tokens import surely_fits
from app.inference.streaming import SoFar
from app.inference.tokens import Counters
from app.inference.wire import Wire
from app.inference.wires import Wires
from app.kinds.base import Answer, Call, OneCall, Read, Unit
from app.services.claiming import Claimed
from app.services.kind_faults import code_of
from app.services.rates import Rates
from app.services.resuming import Resumable, resumable
from app.services.usage import with_usage
from app.services.work import Work

_HONOUR_PRIORITY = frozenset({"vllm", "simulated"})
"""Kinds of endpoint that schedule by `priority`; a lower number runs first, people have 0."""
_BATCH_PRIORITY = 10


@dataclass(frozen=True, slots=True)
class Caller:
    """Makes a chunk's calls, each within the endpoint's rate budget and `deadline_s`."""

    wires: Wires
    rates: Rates
    counters: Counters
    deadline_s: float

    def called(self, work: Work, batch: Sequence[Unit]) -> Read:
        """What the kind reads in the endpoint's answer.

        Raises a leaf of EndpointError, and KindFault where the kind's own code failed.
        """
        kind = work.kind
        assert isinstance(kind, OneCall)
        with code_of(kind.name):
            request = kind.request(batch, work.params)
        reply = self.reply_to(work, batch, request)
        with code_of(kind.name):
            read = kind.read(batch, reply, work.params)
        if work.carried:
            carried = [replace(one, tokens=one.tokens + work.carried) for one in read.results]
            read = replace(read, results=carried)
        return read

    def reply_to(self, work: Work, batch: Sequence[Unit], request: Call) -> Answer:
        """The answer to one request of the chunk, for `batch`. Raises a leaf of EndpointError.

        Where a closed call had begun it, it goes on from there, and `work.carried` says from how
        many tokens.
        """
        spec = work.claimed.endpoint
        try:
            wire = self.wires.of(spec)
        except errors.ConfigError as error:  # Its key is not set in this process.
            raise errors.AuthFailed(str(error)) from error
        work.task = "embed" if isinstance(request, EmbedRequest) else "chat"
        if request.model != work.claimed.choice.model:  # A degraded endpoint stands in.
            request = replace(request, model=work.claimed.choice.model)
        work.carried = 0
        part = resumable(work, batch, request)
        if part is None:
            return self._answered(work, wire, request)
        try:
            reply = self._answered(work, wire, part.sent, part)
        except (errors.BadRequest, errors.TooLong, errors.ContentRefused):
            if part.before is None:
                raise
            return self._answered(work, wire, request)  # It does not go on after all.
        assert isinstance(reply, ChatReply)
        whole = part.whole(work, reply)
        if whole is not None:
            return whole
        again = self._answered(work, wire, request)
        assert isinstance(again, ChatReply)
        work.rough = (reply.usage + again.usage).rough
        return replace(again, usage=reply.usage + again.usage)

    def _answered(
        self, work: Work, wire: Wire, request: Call, part: Resumable | None = None
    ) -> Answer:
        spec = work.claimed.endpoint
        with self.rates.held(spec, request, deadline_s=self.deadline_s, interactive=False) as hold:
            work.called_at = clock.monotonic_s()
            reply: Answer
            if isinstance(request, EmbedRequest):
                dimension = work.collection.dimension if work.collection else None
                request = replace(request, priority=_priority_at(spec))
                reply = wire.embed(request, deadline_s=self.deadline_s, dim=dimension)
            else:
                reply = _streamed(work, wire, request, self.deadline_s, part)
            reply = with_usage(reply, request, self.counters.of(spec, request.model).count)
            hold.used(reply.usage)
        work.rough = reply.usage.rough
        return reply

    def too_long(self, claimed: Claimed, units: Sequence[Unit]) -> dict[int, int]:
        """Tokens of each item that is longer than the endpoint takes, by seq.

        Only what is known: a text is not refused by a guess, nor counted where it surely fits.
        """
        most = claimed.takes.input_tokens
        if most is None:
            return {}
        long = [unit for unit in units if not surely_fits(unit.text, most)]
        if not long:
            return {}
        tokens = self.counters.of(claimed.endpoint, claimed.choice.model)
        counted = tokens.count([unit.text for unit in long])
        if counted.is_rough:
            return {}
        return {
            unit.item.seq: count
            for unit, count in zip(long, counted.counts, strict=True)
            if count > most
        }


def _priority_at(spec: EndpointSpec) -> int | None:
    """What a batch call says of its urgency; None: the endpoint knows no such thing."""
    return _BATCH_PRIORITY if spec.kind in _HONOUR_PRIORITY else None


def _streamed(
    work: Work, wire: Wire, request: ChatRequest, deadline_s: float, part: Resumable | None
) -> ChatReply:
    """A chat that is closed at once when its place is wanted back; what it gave is counted, and
    kept where it may be gone on with."""
    request = replace(request, priority=_priority_at(work.claimed.endpoint))
    so_far = SoFar()

    def on_first_token() -> None:
        work.first_token_s = clock.monotonic_s() - work.called_at

    work.held.streams = work.claimed.job.may_yield
    try:
        return wire.chat(
            request,
            deadline_s=deadline_s,
            on_first_token=on_first_token,
            cancelled=work.held.close,
            so_far=so_far,
        )
    except errors.Abandoned:
        rest = None if part is None else part.closed(work, so_far)
        if rest is not None:
            return rest
        if work.closed is None:
            given = sum(rough_tokens(message.content) for message in request.messages)
            made = len(so_far.pieces)
            work.wasted += closed_tokens(given, made, kept=None).wasted
            work.wasted_money += money(work.claimed.endpoint, given, made)
        raise
    finally:
        work.held.streams = False
