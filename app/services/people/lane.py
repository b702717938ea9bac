"""The lane: a person's request from its arrival to its end, in one event loop.

A request waits for a place, its call is made, and where that fails the next endpoint is asked,
within its time. An answer that has begun is not asked for again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar
from uuid import UUID

from sqlalchemy import Connection

from app import clock, errors
from app.domain.failover import first_token_s, moves_on
from app.domain.inference import ChatRequest
from app.domain.pricing import money
from app.domain.rates import budget_of
from app.domain.requests import NewRequest
from app.domain.routing import Choice
from app.inference.fibers import LoopBackend, in_fiber
from app.inference.wire import Wire
from app.inference.wires import Wires
from app.services.people.admission import Admission
from app.services.people.keeping import Keeping
from app.services.people.pending import Tally
from app.services.people.tickets import (
    Answered,
    Asked,
    Reply,
    Served,
    Ticket,
    Window,
    answered,
    window,
)
from app.services.pools import Pools
from app.services.rates import Hold, Rates
from app.services.standing import Rules, judged
from app.services.usage import with_usage
from app.storage.database import Database
from app.storage.lane_store import KeepStore, LaneStore
from app.storage.limit_store import LimitStore
from app.storage.request_store import RequestStore

T = TypeVar("T")

_NOTE_PATIENCE_S = 0.3
_ASIDE = 8
"""Threads for what is rare and waits for the database: failures, rate budgets."""


@dataclass(frozen=True, slots=True)
class LaneRules:
    """How long a request may wait and its call take, and its row is kept without a sign of life."""

    deadline_s: float
    call_timeout_s: float
    lease_s: float
    heartbeat_s: float
    standing: Rules


class Lane:
    """Made in its loop, and used there alone."""

    def __init__(
        self, database: Database, pools: Pools, rates: Rates, worker: str, rules: LaneRules
    ) -> None:
        self._database = database
        self._pools = pools
        self._rates = rates
        self._worker = worker
        self._rules = rules
        self._wires = Wires(LoopBackend)
        self._keeping = Keeping(KeepStore(database), rules.lease_s, rules.heartbeat_s)
        self._admissions: dict[str, Admission] = {}
        self._aside = ThreadPoolExecutor(_ASIDE, "giveway-aside")

    async def call(
        self, request: NewRequest, asked: Asked, on_text: Callable[[str], None] | None = None
    ) -> Answered:
        """The first endpoint's answer. Raises a leaf of EndpointError; the row then says its code.

        A request that found no place before its deadline is dropped unstarted: EndpointTimeout. One
        whose caller went away is dropped, or its call is closed: Abandoned. `on_text` gets each
        piece of the answer as it comes.
        """
        ticket = Ticket((request,), asked, self.window(request), on_text=on_text)
        try:
            served = await self.served(ticket)
        except BaseException as error:
            self.failed(ticket, error)
            raise
        usage = served.reply.usage
        self.done(ticket, served, [(request, usage.prompt_tokens, usage.completion_tokens)])
        return answered(served, served.reply, ticket.window)

    # What whoever puts requests together needs as well.

    def window(self, request: NewRequest) -> Window:
        """The time of a request that comes now."""
        deadline_s, timeout_s = self._rules.deadline_s, self._rules.call_timeout_s
        return window(request, clock.now(), clock.monotonic_s(), deadline_s, timeout_s)

    async def served(self, ticket: Ticket) -> Served:
        """The answer to the ticket; its rows are not ended by it."""
        admission = self._admission(ticket.pool)
        with self._keeping.held(ticket):
            while True:
                choice = await admission.place(ticket)
                began_s = clock.monotonic_s()
                try:
                    return await self._called(ticket, choice, admission)
                except errors.EndpointError as error:
                    if not await self._has_waited(ticket, error):
                        took_s = clock.monotonic_s() - began_s
                        await self._go_on(ticket, choice, error, took_s)
                finally:
                    admission.left(choice)

    def done(
        self, ticket: Ticket, served: Served, shares: Sequence[tuple[NewRequest, int, int]]
    ) -> None:
        """The requests were answered, each with its share of the tokens (prompt, completion)."""
        spec, rough = served.choice.spec, served.reply.usage.rough
        tallies = [
            Tally(one.id, prompt, completion, money(spec, prompt, completion), rough)
            for one, prompt, completion in shares
        ]
        self._admission(ticket.pool).done(ticket, served.choice, tallies)

    def failed(
        self, ticket: Ticket, error: BaseException, those: Sequence[NewRequest] | None = None
    ) -> None:
        """The ticket's requests, or `those` of them, ended with `error`."""
        ids = [one.id for one in (ticket.requests if those is None else those)]
        if isinstance(error, asyncio.CancelledError):
            self._failed(ticket, errors.Abandoned.code, ids)
        elif isinstance(error, errors.EndpointError):
            self._failed(ticket, error.code, ids)
        else:
            self._failed(ticket, "internal", ids)

    async def settled(self) -> None:
        """Wait until what became of all requests by now is written."""
        for admission in list(self._admissions.values()):
            await admission.settled()

    async def close(self) -> None:
        """Write what is to be written, and close every connection."""
        for admission in self._admissions.values():
            await admission.close()
        await self._keeping.close()
        self._wires.close()
        self._aside.shutdown(wait=False)

    # Its own.

    def _failed(self, ticket: Ticket, code: str, ids: Sequence[UUID]) -> None:
        self._admission(ticket.pool).failed(ticket, ids, code)

    def _admission(self, pool_name: str) -> Admission:
        known = self._admissions.get(pool_name)
        if known is None:
            pool = self._pools.named(pool_name)
            store = LaneStore(self._database, pool_name, self._worker, self._rules.lease_s)

            def prepare() -> None:
                with self._database.transaction() as tx:
                    LimitStore(tx).ensure([pool.bounds])

            known = self._admissions[pool_name] = Admission(pool, store, prepare)
        return known

    async def _called(self, ticket: Ticket, choice: Choice, admission: Admission) -> Served:
        """One call to the endpoint whose place the ticket has, with no transaction open."""
        try:
            wire = self._wires.of(choice.spec)
        except errors.ConfigError as error:
            raise errors.AuthFailed(str(error)) from error
        left_s = ticket.window.answer_by_s - clock.monotonic_s()
        deadline_s = max(0.001, min(left_s, self._rules.call_timeout_s))
        asked = replace(ticket.asked, model=choice.model)
        if not budget_of(choice.spec).is_limited:
            reply = await self._replied(ticket, choice, asked, wire, deadline_s, admission)
            return _served(ticket, choice, reply)
        held = self._rates.held(choice.spec, asked, deadline_s=deadline_s, interactive=True)
        hold: Hold = await self._off(held.__enter__)
        try:
            reply = await self._replied(ticket, choice, asked, wire, deadline_s, admission)
            hold.used(reply.usage)
        finally:
            await self._off(partial(held.__exit__, None, None, None))
        return _served(ticket, choice, reply)

    async def _replied(
        self,
        ticket: Ticket,
        choice: Choice,
        asked: Asked,
        wire: Wire,
        deadline_s: float,
        admission: Admission,
    ) -> Reply:
        bound_s = first_token_s(deadline_s, elsewhere=ticket.elsewhere)
        if ticket.sent_s is None:
            ticket.sent_s = clock.monotonic_s()

        def began() -> None:
            ticket.first_token_s = clock.monotonic_s()
            admission.begun(ticket)

        call: Callable[[], Reply]
        if isinstance(asked, ChatRequest):
            call = partial(
                wire.chat,
                asked,
                deadline_s=deadline_s,
                on_first_token=began,
                on_text=ticket.on_text,
                cancelled=ticket.gone,
                first_token_s=bound_s,
            )
        else:
            call = partial(
                wire.embed,
                asked,
                deadline_s=deadline_s,
                cancelled=ticket.gone,
                first_token_s=bound_s,
            )
        reply: Reply = await in_fiber(call)
        if reply.usage.rough:  # Somebody waits for the answer, so no server is asked.
            counter = self._rates.counters.of(choice.spec, asked.model)
            reply = await self._off(partial(with_usage, reply, asked, counter.count_here))
        return reply

    async def _has_waited(self, ticket: Ticket, error: errors.EndpointError) -> bool:
        """Whether the ticket has waited for a rate budget to have room, its place given back.

        It does where no other endpoint is left and there is time for it.
        """
        after_s = error.retry_after_s
        if not isinstance(error, errors.BudgetSpent) or ticket.elsewhere or after_s is None:
            return False
        if clock.monotonic_s() + after_s >= ticket.window.start_by_s:
            return False
        await self._noted(lambda tx: _wait_again(tx, ticket))
        await _gone_within(ticket, after_s)
        return True

    async def _go_on(
        self, ticket: Ticket, choice: Choice, error: errors.EndpointError, took_s: float
    ) -> None:
        """Let everybody know, and give the place back to look for another; `error` if that is no
        use."""
        ticket.tried.add(choice.spec.name)
        ticket.failed = error
        may_move = moves_on(error) and ticket.elsewhere and not ticket.gone.is_set()
        final = ticket.first_token_s is not None or ticket.is_late or not may_move

        def note(tx: Connection) -> None:
            judged(
                tx,
                choice.spec.name,
                error,
                self._rules.standing,
                task="chat" if isinstance(ticket.asked, ChatRequest) else "embed",
                model=choice.model,
                elsewhere=ticket.elsewhere,
                after_s=took_s,
            )
            if final:
                return
            _wait_again(tx, ticket)
            if not isinstance(error, errors.BudgetSpent):  # Then there was no call.
                RequestStore(tx).detour(ticket.pool, choice.spec.name, took_s, error.code)

        await self._noted(note)
        if final:
            raise error

    async def _noted(self, note: Callable[[Connection], None]) -> None:
        with suppress(errors.DatabaseUnavailable):
            await self._off(partial(self._database.patiently, note, _NOTE_PATIENCE_S))

    async def _off(self, work: Callable[[], T]) -> T:
        """Do in a thread what waits for the database."""
        return await asyncio.get_running_loop().run_in_executor(self._aside, work)


def _wait_again(tx: Connection, ticket: Ticket) -> None:
    RequestStore(tx).wait_again([one.id for one in ticket.requests])


def _served(ticket: Ticket, choice: Choice, reply: Reply) -> Served:
    assert ticket.sent_s is not None
    return Served(reply, choice, ticket.sent_s, ticket.first_token_s)


async def _gone_within(ticket: Ticket, seconds: float) -> None:
    """Wait so long, or until nobody waits for the ticket any more."""
    gone = asyncio.Event()
    ticket.gone.hook(gone.set)
    try:
        async with asyncio.timeout(seconds):
            await gone.wait()
    except TimeoutError:
        pass
    finally:
        ticket.gone.unhook(gone.set)
