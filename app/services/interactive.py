"""An interactive request: a row, a place in the pool, the call, the row finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from app import clock, errors
from app.domain.inference import ChatReply, ChatRequest, EmbedReply, EmbedRequest
from app.domain.merging import MergeRule, bounded
from app.domain.pricing import money
from app.domain.requests import NewRequest, RequestState, Unbegun
from app.domain.routing import DEGRADED, Choice
from app.inference.cancel import Cancel
from app.services.leases import Leases
from app.services.merging import Member, Merging, Ride
from app.services.party import Alone, Party, Window, window
from app.services.pools import Pools, pool_for
from app.services.serving import Served, Serving
from app.storage.database import Database
from app.storage.dropped_store import DroppedStore
from app.storage.request_store import RequestStore

_END_PATIENCE_S = 0.3


@dataclass(frozen=True, slots=True)
class Answered:
    """The reply and where it came from, with times in milliseconds since submission."""

    reply: ChatReply | EmbedReply
    choice: Choice
    queue_ms: float
    first_token_ms: float | None
    total_ms: float

    @property
    def endpoint(self) -> str:
        """Who answered."""
        return self.choice.spec.name

    @property
    def degraded(self) -> bool:
        """Whether a degraded endpoint answered, maybe with another model."""
        return self.choice.role == DEGRADED


class Interactive:
    """The use case behind `giveway.interactive.*` tasks."""

    def __init__(
        self,
        database: Database,
        pools: Pools,
        serving: Serving,
        leases: Leases,
        deadline_s: float,
        call_timeout_s: float,
        merging: MergeRule,
    ) -> None:
        self._database = database
        self._pools = pools
        self._serving = serving
        self._leases = leases
        self._deadline_s = deadline_s
        self._call_timeout_s = call_timeout_s
        self._rule = merging
        self._merging = Merging(self._carry)

    def pool_for(self, model: str) -> str:
        """The pool that serves `model`."""
        return pool_for(self._database, self._pools, model).name

    def cancel(self, request_id: UUID, *, even_running: bool = True) -> str | None:
        """Nobody waits for the request any more: it is not sent, or its call is closed.

        Its state before; None: its message has not come yet, and is dropped when it does. Without
        `even_running` only a request that waits for a place is taken back; None: it does not.
        """
        with self._database.transaction() as tx:
            store = RequestStore(tx)
            return store.cancel(request_id) if even_running else store.cancel_queued(request_id)

    def never_begun(self, dropped: Sequence[Unbegun]) -> None:
        """Record requests that ended before a worker began them."""
        self._patiently(lambda tx: DroppedStore(tx).record(dropped))

    def run(self, request: NewRequest, asked: ChatRequest | EmbedRequest) -> Answered:
        """The first endpoint's answer. Raises a leaf of EndpointError; the row then says its code.

        A request that found no place before its deadline is dropped unstarted: EndpointTimeout. One
        whose caller went away is dropped, or its call is closed: Abandoned.
        """
        own = window(
            request, clock.now(), clock.monotonic_s(), self._deadline_s, self._call_timeout_s
        )
        with self._leases.keep_request(request.id) as gone:
            if isinstance(asked, EmbedRequest):
                return self._in_company(Member(request, asked, own, gone))
            return self._alone(request, asked, own, gone)

    def _alone(
        self,
        request: NewRequest,
        asked: ChatRequest | EmbedRequest,
        own: Window,
        gone: Cancel,
    ) -> Answered:
        served = self._carry(Alone(request, asked, own, gone))
        return _answered(served, served.reply, own)

    def _in_company(self, member: Member) -> Answered:
        """An embedding request, in one call with others that come at the same time."""
        pool = self._pools.named(member.request.pool)
        rule = bounded(self._rule, member.request.model, pool.endpoints)
        with self._merging.company(member, rule) as ride:
            if ride is not None:
                served, reply = self._shared(member, ride)
                if served is not None and reply is not None:
                    return _answered(served, reply, member.window)
            asked = EmbedRequest(member.request.model, member.texts)
            return self._alone(member.request, asked, member.window, member.gone)

    def _shared(self, member: Member, ride: Ride) -> tuple[Served | None, EmbedReply | None]:
        """What the shared call gave; None: this request is to be sent on its own."""
        member.gone.hook(member.settled.set)
        try:
            member.settled.wait(max(0.0, member.window.start_by_s - clock.monotonic_s()))
            if ride.departed:
                member.settled.wait(max(0.0, member.window.answer_by_s - clock.monotonic_s()))
        finally:
            member.gone.unhook(member.settled.set)
        if member.served is None and member.error is None:
            ride.leave([member.request.id])
            self._end_one(member, unsent=not ride.departed)
        if member.error is not None and not member.goes_alone:
            raise member.error
        return member.served, member.reply

    def _end_one(self, member: Member, *, unsent: bool) -> None:
        """End the row of one who does not wait for the shared call. Raises why."""
        told = "; the request was dropped unstarted" if unsent else ""
        error: errors.EndpointError = errors.EndpointTimeout(f"its deadline passed{told}")
        if member.gone.is_set():
            error = errors.Abandoned(f"its caller is gone{told}")
        state = RequestState.DROPPED if unsent else RequestState.FAILED
        self._patiently(lambda tx: RequestStore(tx).finish(member.request.id, state, error.code))
        raise error

    def _carry(self, party: Party) -> Served:
        """Serve the party and end its rows, however that ends."""
        try:
            served = self._serving.served(party)
        except errors.EndpointError as error:
            if not party.splits(error):
                self._failed(party, error.code)
            raise
        except BaseException:
            self._failed(party, "internal")
            raise

        shares, spec = party.tally(served.reply), served.choice.spec

        def done(tx: Connection) -> None:
            store = RequestStore(tx)
            store.finish_all(
                [one.id for one in shares],
                RequestState.DONE,
                None,
                [one.prompt_tokens for one in shares],
                [one.completion_tokens for one in shares],
                [money(spec, one.prompt_tokens, one.completion_tokens) for one in shares],
                rough=served.reply.usage.rough,
            )
            self._serving.answered(tx, served.choice, party.task_type)
            if party.ride is not None:
                store.end_ride(party.pool, party.ride)

        self._patiently(done)
        return served

    def _failed(self, party: Party, code: str) -> None:
        state = RequestState.DROPPED if party.sent_s is None else RequestState.FAILED
        ids = [one.id for one in party.members()]

        def end(tx: Connection) -> None:
            store = RequestStore(tx)
            store.finish_all(ids, state, code)
            if party.ride is not None:
                store.end_ride(party.pool, party.ride)

        self._patiently(end)

    def _patiently(self, work: Callable[[Connection], None]) -> None:
        # Not longer: somebody waits for the answer, and a lapsed lease ends the row as well.
        with suppress(errors.DatabaseUnavailable):
            self._database.patiently(work, _END_PATIENCE_S)


def _answered(served: Served, reply: ChatReply | EmbedReply, own: Window) -> Answered:
    first_s = served.first_token_s
    return Answered(
        reply,
        served.choice,
        max(0.0, served.sent_s - own.came_s) * 1000,
        None if first_s is None else (first_s - own.came_s) * 1000,
        (clock.monotonic_s() - own.came_s) * 1000,
    )
