"""Sharing of calls: small embedding requests that come together go as one call, one place, a row
each. It stands outside the lane: what it puts together goes in as a ticket for several requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from uuid import UUID, uuid4

from app import clock, errors
from app.domain.inference import EmbedReply, EmbedRequest
from app.domain.merging import (
    MergeRule,
    Traffic,
    bounded,
    departs_at_s,
    has_company,
    is_small,
    shared_out,
    size_of,
    splits,
)
from app.domain.requests import NewRequest
from app.services.people.lane import Lane
from app.services.people.tickets import Answered, Served, Ticket, Window, answered
from app.services.pools import Pools

_Share = tuple[Served, EmbedReply] | errors.EndpointError | None
"""What a member got of a call. None: it is to be sent on its own."""


class _Member:
    """A request that shares a call, and what became of it."""

    def __init__(self, request: NewRequest, texts: Sequence[str], own: Window) -> None:
        self.request = request
        self.texts = texts
        self.window = own
        self.settled: asyncio.Future[_Share] = asyncio.get_running_loop().create_future()

    def settle(self, share: _Share) -> None:
        """Tell it, unless it left before."""
        if not self.settled.done():
            self.settled.set_result(share)


class _Ride:
    """A call that several requests share. They join until it departs, and may leave at any time."""

    def __init__(self, rule: MergeRule) -> None:
        self._rule = rule
        self._size = self._texts = 0
        self.members: list[_Member] = []
        self.ticket: Ticket | None = None
        """None: it has not departed."""
        self._filled = asyncio.Event()
        self._opened_s = self._joined_s = clock.monotonic_s()

    def joined(self, member: _Member) -> bool:
        """Whether `member` shares the call: it has not departed and there is room."""
        texts, size = self._texts + len(member.texts), self._size + size_of(member.texts)
        is_full = texts > self._rule.most_texts or size > self._rule.most_tokens
        if self.ticket is not None or (self.members and is_full):
            return False
        self.members.append(member)
        self._texts, self._size, self._joined_s = texts, size, clock.monotonic_s()
        if texts >= self._rule.most_texts:
            self._filled.set()
        return True

    async def gather(self) -> None:
        """Wait for more, as long as that makes sense."""
        while self.members:
            left_s = departs_at_s(self._opened_s, self._joined_s, self._rule) - clock.monotonic_s()
            if left_s <= 0 or self._filled.is_set():
                return
            try:
                async with asyncio.timeout(left_s):
                    await self._filled.wait()
            except TimeoutError:
                continue

    def depart(self) -> Ticket:
        """One call for all; nobody joins any more."""
        windows = [one.window for one in self.members]
        self.ticket = Ticket(
            [one.request for one in self.members],
            EmbedRequest(
                self.members[0].request.model,
                tuple(text for one in self.members for text in one.texts),
            ),
            Window(
                min(one.came_s for one in windows),
                max(one.start_by_s for one in windows),
                max(one.answer_by_s for one in windows),
            ),
            uuid4(),
        )
        return self.ticket

    @property
    def is_sent(self) -> bool:
        """Whether its call began."""
        return self.ticket is not None and self.ticket.sent_s is not None


class Sharing:
    """Finds company for embedding requests of this process. Used by the lane's loop alone."""

    def __init__(self, lane: Lane, pools: Pools, rule: MergeRule) -> None:
        self._lane = lane
        self._pools = pools
        self._rule = rule
        self._rides: dict[tuple[str, str], _Ride] = {}
        self._traffic: dict[tuple[str, str], Traffic] = {}
        self._driven: set[asyncio.Task[None]] = set()

    async def call(self, request: NewRequest, asked: EmbedRequest) -> Answered:
        """The answer to `asked`, in one call with others that come at the same time."""
        key = (request.pool, request.model)
        rule = bounded(self._rule, request.model, self._pools.named(request.pool).endpoints)
        member = _Member(request, asked.texts, self._lane.window(request))
        ride = self._ride(key, member, rule)
        self._count(key, lambda now: replace(now, under_way=now.under_way + 1, last_came_s=_now()))
        try:
            share = None if ride is None else await self._shared(member, ride)
            if share is None:
                return await self._lane.call(request, asked)
            if isinstance(share, errors.EndpointError):
                raise share
            return answered(*share, member.window)
        finally:
            self._count(key, lambda now: replace(now, under_way=now.under_way - 1))

    def _count(self, key: tuple[str, str], change: Callable[[Traffic], Traffic]) -> None:
        self._traffic[key] = change(self._traffic.get(key, Traffic()))

    def _ride(self, key: tuple[str, str], member: _Member, rule: MergeRule) -> _Ride | None:
        """The ride that `member` shares; None: it goes on its own."""
        if not is_small(member.texts, rule):
            return None
        ride = self._rides.get(key)
        if ride is not None and ride.joined(member):
            return ride
        if not has_company(self._traffic.get(key, Traffic()), _now(), rule):
            return None
        ride = self._rides[key] = _Ride(rule)
        ride.joined(member)
        task = asyncio.get_running_loop().create_task(self._drive(key, ride))
        self._driven.add(task)
        task.add_done_callback(self._driven.discard)
        return ride

    async def _shared(self, member: _Member, ride: _Ride) -> _Share:
        """What the shared call gave its member, within the member's own time."""
        for until_s in (member.window.start_by_s, member.window.answer_by_s):
            try:
                async with asyncio.timeout(max(0.0, until_s - _now())):
                    return await asyncio.shield(member.settled)
            except TimeoutError:
                if not ride.is_sent:
                    break
            except asyncio.CancelledError as gone:
                self._leave(member, ride, gone)
                raise
        told = "" if ride.is_sent else "; the request was dropped unstarted"
        late = errors.EndpointTimeout(f"its deadline passed{told}")
        self._leave(member, ride, late)
        return late

    def _leave(self, member: _Member, ride: _Ride, why: BaseException) -> None:
        """Whoever leaves takes nobody along."""
        member.settle(None)
        if ride.ticket is None:
            ride.members.remove(member)
            return
        self._lane.failed(ride.ticket, why, [member.request])
        ride.ticket.leave(member.request.id)

    async def _drive(self, key: tuple[str, str], ride: _Ride) -> None:
        await ride.gather()
        if self._rides.get(key) is ride:
            del self._rides[key]
        if not ride.members:
            return
        ticket = ride.depart()
        members = {one.request.id: one for one in ride.members}

        def left(request_id: UUID) -> None:
            member = members[request_id]
            if not member.settled.done():
                told = "" if ride.is_sent else "; the request was dropped unstarted"
                error = errors.Abandoned(f"its caller is gone{told}")
                member.settle(error)
                self._lane.failed(ticket, error, [member.request])

        ticket.leavers = left
        try:
            served = await self._lane.served(ticket)
        except BaseException as error:
            self._settle(ride, ticket, error)
            if not isinstance(error, errors.EndpointError):
                raise
        else:
            self._share_out(ride, ticket, served)
        if len(ride.members) > 1:
            self._count(key, lambda now: replace(now, last_shared_s=_now()))

    def _settle(self, ride: _Ride, ticket: Ticket, error: BaseException) -> None:
        """The call failed: for all, or because of one of them, and then each is sent alone."""
        alone = isinstance(error, errors.EndpointError) and splits(error, len(ride.members))
        if not alone:
            self._lane.failed(ticket, error)
        told = error if isinstance(error, errors.EndpointError) else errors.Abandoned("it ended")
        for one in ride.members:
            one.settle(None if alone else told)

    def _share_out(self, ride: _Ride, ticket: Ticket, served: Served) -> None:
        """Those who left have no share, though the call carried them."""
        assert isinstance(served.reply, EmbedReply)
        parts = shared_out(served.reply, [one.texts for one in ride.members])
        waiting = {one.id for one in ticket.requests}
        shares = []
        for member, part in zip(ride.members, parts, strict=True):
            if member.request.id in waiting:
                shares.append((member.request, part.usage.prompt_tokens, 0))
                member.settle((served, part))
        self._lane.done(ticket, served, shares)


def _now() -> float:
    return clock.monotonic_s()
