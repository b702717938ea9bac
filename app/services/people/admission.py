"""Admission in groups: one coroutine a pool gets places for all who wait there.

    a request comes ──► the line ──► one transaction for all who wait at that moment ──► its call
                          ▲                                                                │
                          └────── a place of its own came free: the next group ◄── its end ┘

Nobody polls. While a group is out, whoever comes gathers for the next one. An end frees its place
with the next group or, where nobody waits, in a statement of its own a moment later. Of places that
other processes free the lane learns by a look, and it looks only while somebody waits.

Without Postgres, or with one that does not answer in time, people are served without a row: as many
at once as the pool and its endpoints carry, as far as this process knows.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from app import clock, errors
from app.domain.admission import Waits, admitted
from app.domain.failover import (
    ROLES,
    Scene,
    away_s,
    nothing_left,
    patience_s,
    roles_open,
)
from app.domain.requests import before
from app.domain.routing import HEALTHY, PRIMARY, Choice, places
from app.services.people.pending import Pending, Tally
from app.services.people.tickets import Ticket
from app.services.pools import Pool, standing_as, tuned
from app.services.pools.now import scene
from app.storage.lane_store import Arrival, Expected, LaneStore, Seen, Start

log = logging.getLogger(__name__)

PATIENCE_S = 3.0
"""How long a group may take before those in it are served without a row. Longer than the lock of a
lane that was stopped in the middle of a group lives."""
_AGAIN_S = 0.3
"""For how long a server that is gone is tried again first, as one that restarts."""
_PAUSE_S = 0.1
_HEAL_S = 0.5
"""How often a server that was away is tried."""
_HELD_S = 0.04
"""How long an end waits for a group to go with, where nobody waits for its place."""
_SETTLE_S = 0.002
_LOOK_S = 0.02
"""How often a lane whose request is the first in the whole line looks."""
_LOOK_BEHIND_S = 0.05
"""The same of a lane whose first request is not: whoever is before it must find a place first."""
_LOOK_NOWHERE_S = 0.2
"""The same while no endpoint is in service."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What the last look told: the pool as it stands, who waits, and what a group rests on."""

    pool: Pool
    mark: int
    doubted: frozenset[str]
    others: bool
    """Whether somebody waits who is not this lane's."""


class Admission:
    """The line in front of one pool, in this process. Used by the lane's loop alone."""

    def __init__(self, pool: Pool, store: LaneStore, prepare: Callable[[], None]) -> None:
        self._pool = pool
        self._store = store
        self._prepare = prepare
        self._waiting: dict[UUID, Ticket] = {}
        self._answers: dict[UUID, asyncio.Future[Choice]] = {}
        self._pending = Pending()
        self._known: _Known | None = None
        self._flying: Counter[str] = Counter()
        """In flight by endpoint, as far as is known: as last counted, with our own since then."""
        self._own: Counter[str] = Counter()
        """Our own in flight by endpoint."""
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._is_away = False
        self._is_first = False
        """Whether the first in the whole line is ours."""
        self._is_pressing = False
        """Whether there is more to do than to look."""
        self._is_out = False
        """Whether a group is out."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    # What the lane asks of it.

    async def place(self, ticket: Ticket) -> Choice:
        """The endpoint whose place the ticket has now.

        Raises what the last endpoint failed with when none is left to try, EndpointTimeout once the
        time is over, ConnectionFailed where every endpoint stays out of service, and Abandoned once
        nobody waits.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Choice] = loop.create_future()
        self._waiting[ticket.call], self._answers[ticket.call] = ticket, answer
        late = loop.call_later(
            max(0.0, ticket.window.start_by_s - clock.monotonic_s()), self._sweep
        )
        ticket.gone.hook(self._sweep)
        self._is_pressing = True
        if self._is_away:
            self._boldly()
        else:
            self._wake.set()
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                self.left(answer.result())
            raise
        finally:
            ticket.gone.unhook(self._sweep)
            late.cancel()
            self._forget(ticket)

    def left(self, choice: Choice) -> None:
        """A call of ours is over. Its place is free once its row says so."""
        name = choice.spec.name
        for counts in (self._own, self._flying):
            counts[name] = max(0, counts[name] - 1)

    def begun(self, ticket: Ticket) -> None:
        """The first token of its answer came."""
        if ticket.sent_to_database:
            self._pending.begun(ticket)
            self._later(_HELD_S)

    def done(self, ticket: Ticket, choice: Choice, tallies: Sequence[Tally]) -> None:
        """It was answered well by `choice`."""
        if ticket.sent_to_database:
            if self._known is not None and choice.spec.name in self._known.doubted:
                self._pending.well(choice.spec.name, ticket.task_type)
            self._pending.done(ticket, tallies)
        self._freed()

    def failed(self, ticket: Ticket, ids: Sequence[UUID], code: str) -> None:
        """These requests of the ticket ended with `code`."""
        if ticket.sent_to_database:
            sent = ticket.sent_s is not None
            self._pending.failed(ids, code, ticket.first_token_s, sent=sent)
        self._freed()

    async def settled(self) -> None:
        """Wait until everything is written that was to be written by now."""
        while (self._pending or self._is_out) and not self._is_away:
            self._wake.set()
            await asyncio.sleep(_SETTLE_S)

    async def close(self) -> None:
        """Write what is to be written, and leave the database."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.settled()
        except TimeoutError:
            log.warning("pool %s: the ends of some requests are not written", self._pool.name)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()
        await self._store.close()

    # The loop.

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._is_out = True
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            try:
                await self._turn()
            except errors.DatabaseUnavailable as error:
                self._lost(error)
            except Exception:
                log.exception("pool %s: a group failed", self._pool.name)
                self._lost(None)
            self._sweep()
            self._is_out = False
            if self._waiting and not self._is_away:
                self._later(self._look_s())

    async def _turn(self) -> None:
        """One group, tried again for a moment where the server is gone."""
        began_s, give_up_at_s = clock.monotonic_s(), None
        while True:
            cut = asyncio.get_running_loop().call_later(PATIENCE_S, self._store.cut)
            try:
                await self._group()
            except errors.DatabaseUnavailable:
                now_s = clock.monotonic_s()
                if give_up_at_s is None:
                    # The server leaves a process that stood still in a group: that is no outage,
                    # and is tried again at once. A database that used up all patience is one.
                    was_cut = now_s - began_s >= PATIENCE_S
                    give_up_at_s = now_s if was_cut else now_s + _AGAIN_S
                if self._is_away or now_s + _PAUSE_S > give_up_at_s:
                    raise
            else:
                if self._is_away:
                    log.warning("pool %s: the database is back", self._pool.name)
                self._is_away = False
                return
            finally:
                cut.cancel()
            await asyncio.sleep(_PAUSE_S)

    async def _group(self) -> None:
        alive = [one for one in self._waiting.values() if self._may_start(one)]
        new = [one for one in self._waiting.values() if not one.recorded]
        is_pressing, self._is_pressing = self._is_pressing or bool(self._pending), False
        if not self._waiting and not self._is_away:
            await self._write()
        elif not is_pressing and not self._is_away:
            await self._look(alive)
        elif not (len(new) == len(alive) == len(self._waiting) and await self._at_once(new)):
            await self._by_turns()

    async def _write(self) -> None:
        """Ends and first tokens by themselves."""
        if not self._pending:
            return
        taken = self._pending.take()
        try:
            await self._store.write(taken.writes())
        except BaseException:
            self._pending.put_back(taken)
            raise

    async def _look(self, alive: Sequence[Ticket]) -> None:
        """Nothing is new: only if somebody could have a place is the lock worth taking."""
        seen = await self._store.look()
        if seen is None or self._chosen(seen, alive) or self._lapsed(seen):
            await self._by_turns()
        elif self._known is not None:
            self._refuse(self._known.pool)

    async def _at_once(self, new: Sequence[Ticket]) -> bool:
        """Whether all who wait started where there was room as expected, in one round trip."""
        known = self._known
        if known is None or known.others:
            return False
        now = scene(known.pool, self._flying)
        line = [(one.call, one.model) for one in sorted(new, key=_rank)]
        chosen = admitted(line, self._waits(new, known.pool), now)
        if len(chosen) < len(new):
            return False
        more = Counter(choice.spec.name for choice in chosen.values())
        carries = {
            choice.spec.name: places(
                choice.spec, known.pool.health.get(choice.spec.name, HEALTHY), choice.model
            )
            for choice in chosen.values()
        }
        expected = Expected(
            known.mark,
            known.pool.bounds.total,
            [spec.name for spec in known.pool.endpoints if spec.role != PRIMARY],
            [(name, count, carries[name]) for name, count in more.items()],
        )
        arrivals = self._arrivals(new, chosen)
        taken = self._pending.take()
        try:
            landed = await self._store.at_once(taken.writes(), arrivals, expected)
        except BaseException:
            self._pending.put_back(taken)
            raise
        self._recorded(new, {one: fate.cancelled for one, fate in landed.items()})
        for one in new:
            if all(landed[each.request.id].started for each in arrivals if each.call == one.call):
                self._admit(one, chosen[one.call], known.pool)
        # Who was not let in goes by turns, at once.
        return all(fate.started or fate.cancelled for fate in landed.values())

    async def _by_turns(self) -> None:
        """One group in two round trips: who is there is seen under the lock, and then chosen."""
        new = [one for one in self._waiting.values() if not one.recorded]
        taken = self._pending.take()
        chosen: dict[UUID, Choice] = {}
        tickets: dict[UUID, Ticket] = {}
        try:
            async with self._store.by_turns(taken.writes(), self._arrivals(new, {})) as turns:
                seen = turns.seen
                if seen is not None:
                    gone = {one: fate.cancelled for one, fate in turns.landed.items()}
                    self._recorded(new, gone)
                    alive = [one for one in self._waiting.values() if self._may_start(one)]
                    chosen = self._chosen(seen, [one for one in alive if one.recorded])
                    tickets = {call: self._waiting[call] for call in chosen}
                    turns.starts = [
                        Start(one.id, choice.spec.name, choice.role, choice.model)
                        for call, choice in chosen.items()
                        for one in tickets[call].requests
                    ]
        except BaseException:
            self._pending.put_back(taken)
            raise
        if seen is None:
            await asyncio.to_thread(self._prepare)
            self._is_pressing = True
            self._wake.set()
            return
        known = self._known
        assert known is not None
        for call, choice in chosen.items():
            self._admit(tickets[call], choice, known.pool)
        for ticket in self._lapsed(seen):
            ticket.recorded = False
            self._is_pressing = True
            self._wake.set()
        self._refuse(known.pool)

    # What it knows, and what follows.

    def _chosen(self, seen: Seen, alive: Sequence[Ticket]) -> dict[UUID, Choice]:
        """Who of `alive` gets a place, by what was seen; what was seen is kept in mind."""
        pool = standing_as(tuned(self._pool, seen.tuned), seen.standing)
        self._flying = Counter(seen.flying)
        chosen = admitted(seen.line, self._waits(alive, pool), scene(pool, seen.flying))
        others = any(call not in self._waiting for call, _ in seen.line)
        self._known = _Known(pool, seen.mark, seen.doubted, others)
        self._is_first = bool(seen.line) and seen.line[0][0] in self._waiting
        return chosen

    def _lapsed(self, seen: Seen) -> list[Ticket]:
        """Those whose rows are not in the line: their lease ran out as this process stood still."""
        line = {call for call, _ in seen.line}
        return [one for call, one in self._waiting.items() if one.recorded and call not in line]

    @staticmethod
    def _waits(tickets: Sequence[Ticket], pool: Pool) -> Mapping[UUID, Waits]:
        waits: dict[UUID, Waits] = {}
        for one in tickets:
            untried = [spec for spec in pool.endpoints if spec.name not in one.tried]
            bound_s = patience_s(one.window.whole_s)
            roles = roles_open(one.model, untried, pool.health, one.waited_s, bound_s)
            waits[one.call] = Waits(one.model, one.tried, roles)
        return waits

    @staticmethod
    def _may_start(ticket: Ticket) -> bool:
        return not ticket.gone.is_set() and not ticket.is_late

    @staticmethod
    def _arrivals(tickets: Sequence[Ticket], chosen: Mapping[UUID, Choice]) -> list[Arrival]:
        arrivals: list[Arrival] = []
        for one in tickets:
            one.sent_to_database = True
            choice = chosen.get(one.call)
            place = None if choice is None else (choice.spec.name, choice.role, choice.model)
            arrivals += [Arrival(request, one.call, place) for request in one.requests]
        return arrivals

    @staticmethod
    def _recorded(tickets: Sequence[Ticket], cancelled: Mapping[UUID, bool]) -> None:
        for ticket in tickets:
            ticket.recorded = True
            for one in list(ticket.requests):
                if cancelled.get(one.id):
                    ticket.leave(one.id)

    def _admit(self, ticket: Ticket, choice: Choice, pool: Pool) -> None:
        name = choice.spec.name
        self._own[name] += 1
        self._flying[name] += 1
        tried = {*ticket.tried, name}
        ticket.elsewhere = not nothing_left(ticket.model, pool.endpoints, pool.health, tried)
        answer = self._answers.get(ticket.call)
        if answer is None or answer.done():  # It left as its place came.
            self.left(choice)
            return
        answer.set_result(choice)
        self._forget(ticket)

    def _refuse(self, pool: Pool) -> None:
        """Tell those for whom no endpoint is in service. One that was not asked may come back
        soon."""
        for ticket in list(self._waiting.values()):
            if not nothing_left(ticket.model, pool.endpoints, pool.health, ticket.tried):
                continue
            if ticket.failed is not None:
                self._fail(ticket, ticket.failed)
            elif ticket.waited_s >= away_s(ticket.window.whole_s):
                told = (
                    f"no endpoint of pool {ticket.pool!r} for {ticket.model!r} is in service; "
                    "the request was dropped unstarted; see: giveway endpoints list"
                )
                self._fail(ticket, errors.ConnectionFailed(told))

    def _fail(self, ticket: Ticket, error: errors.GivewayError) -> None:
        answer = self._answers.get(ticket.call)
        if answer is not None and not answer.done():
            answer.set_exception(error)
        self._forget(ticket)

    def _forget(self, ticket: Ticket) -> None:
        if self._waiting.get(ticket.call) is ticket:
            del self._waiting[ticket.call], self._answers[ticket.call]

    def _sweep(self) -> None:
        """Tell those who may not start any more. Each leaves its row first."""
        for ticket in list(self._waiting.values()):
            if ticket.recorded or self._is_away:
                error = ticket.why_not()
                if error is not None:
                    self._fail(ticket, error)

    # When it goes on.

    def _freed(self) -> None:
        """A place of ours is free."""
        if self._is_away:
            self._boldly()
        elif self._waiting or (self._known is not None and self._known.others):
            self._wake.set()
        else:
            self._later(_HELD_S)

    def _later(self, after_s: float) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + after_s
        if self._timer is not None:
            if self._timer.when() <= due_s:
                return
            self._timer.cancel()
        self._timer = loop.call_at(due_s, self._wake.set)

    def _look_s(self) -> float:
        known = self._known
        if known is not None and all(
            nothing_left(one.model, known.pool.endpoints, known.pool.health, one.tried)
            for one in self._waiting.values()
        ):
            return _LOOK_NOWHERE_S
        return _LOOK_S if self._is_first else _LOOK_BEHIND_S

    # Without a database.

    def _lost(self, error: Exception | None) -> None:
        if not self._is_away:
            log.warning("pool %s: people are served without rows: %s", self._pool.name, error)
        self._is_away, self._known = True, None
        for ticket in self._waiting.values():
            ticket.recorded = False
        self._boldly()
        self._later(_HEAL_S)

    def _boldly(self) -> None:
        """Places as far as this process knows.

        While Postgres is away no batch call starts, so what is in flight only falls: a person is
        served without a row rather than made to wait for our bookkeeping.
        """
        self._sweep()
        line = sorted(self._waiting.values(), key=_rank)
        for ticket in line:
            if not nothing_left(ticket.model, self._pool.endpoints, {}, ticket.tried):
                continue
            name = self._pool.name
            told = errors.DatabaseUnavailable(f"no endpoint of pool {name!r} is known for sure")
            self._fail(ticket, ticket.failed or told)
        waits = {one.call: Waits(one.model, one.tried, ROLES) for one in line}
        known = [(one.call, one.model) for one in line if one.call in self._waiting]
        chosen = admitted(known, waits, self._scene_of_our_own())
        for call, choice in chosen.items():
            self._admit(self._waiting[call], choice, self._pool)

    def _scene_of_our_own(self) -> Scene:
        return scene(self._pool, self._own)


def _rank(ticket: Ticket) -> tuple[object, ...]:
    return min(before(one) for one in ticket.requests)
