"""What the people's lane writes and reads: for many requests at once, in few round trips.

A *group* is one transaction that locks the pool's limit row in a statement of its own, so that what
is counted after it is counted with a younger snapshot: any number of lanes and claimers together
never pass the total. Its statements are sent together and nobody waits between them. Two shapes:

    at once   lock · ends · arrivals that start if there is certainly room · commit    1 round trip
    by turns  lock · ends · arrivals · who is in flight and who waits │ starts · commit           2

The first is for a pool in which nobody waits. It starts requests where the caller expects room,
and the statement itself makes sure of it, and of all that the expectation rests on; else they are
left waiting, and go by turns.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from app.domain.requests import NewRequest, RequestState
from app.domain.throttle.values import State
from app.errors import DatabaseUnavailable
from app.storage.database import Database, psycopgs
from app.storage.endpoint_store import ANSWERED, STANDING, Standing, standings
from app.storage.limit_store import OCCUPANCY
from app.storage.request_store import CANCELLED, EXTEND, columns_of

_IDLE_S = 1.0
"""A lane that stops in the middle of a group must not hold the pool's row for longer."""
_STATEMENT_S = 10.0
_CONNECT_S = 2.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that has no row yet. Those with the same `call` go in one call. `place`: the
    endpoint, its role and the model at which it starts if there is room; None: it waits."""

    request: NewRequest
    call: UUID
    place: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """A request that takes its place."""

    id: UUID
    endpoint: str
    role: str
    model: str


@dataclass(frozen=True, slots=True)
class End:
    """A request that ended `ago_s` ago, and its first token, where there was one."""

    id: UUID
    state: RequestState
    ago_s: float
    first_ago_s: float | None = None
    error_code: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    money: float | None = None
    rough: bool = False


@dataclass(frozen=True, slots=True)
class Writes:
    """What is written of people's requests: who ended, whose first token came (and how long ago),
    and (endpoint, task) of those that answered well after they had not."""

    ends: Sequence[End] = ()
    firsts: Sequence[tuple[UUID, float]] = ()
    answered: Sequence[tuple[str, str]] = ()

    def __bool__(self) -> bool:
        return bool(self.ends or self.firsts or self.answered)


@dataclass(frozen=True, slots=True)
class Expected:
    """What starting at once rests on: how the pool stands (`mark`), its total and the endpoints
    that have places outside it, and how many more each endpoint gets of how many places."""

    mark: int
    total: int
    outside: Sequence[str]
    more: Sequence[tuple[str, int, int]] = field(default_factory=list)
    """(endpoint, how many more, its places)."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A pool under its lock. `line`: who waits, in order, as (call, model). `mark` changes when the
    settings tuned at run time or an endpoint's standing do. `doubted`: endpoints with failures."""

    state: State
    tuned: dict[str, Any]
    now: datetime
    standing: Sequence[Standing]
    flying: dict[str, int]
    line: Sequence[tuple[UUID, str]]
    mark: int
    doubted: frozenset[str]


@dataclass(frozen=True, slots=True)
class Landed:
    """What became of an arrival."""

    started: bool
    cancelled: bool


class _Linked:
    """A connection of an event loop, made on first use and again after it broke.

    Nothing on it may be used by two at once. Raises DatabaseUnavailable.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: AsyncConnection[TupleRow] | None = None
        self.round_trips = 0
        """Times that it waited for the server's answer."""

    async def connected(self) -> AsyncConnection[TupleRow]:
        """The connection, made if there is none."""
        if self._connection is None or self._connection.closed:
            options = (
                f"-c statement_timeout={int(_STATEMENT_S * 1000)} "
                f"-c idle_in_transaction_session_timeout={int(_IDLE_S * 1000)} -c timezone=UTC"
            )
            async with asyncio.timeout(_CONNECT_S):
                self._connection = await AsyncConnection.connect(
                    **self._database.reach, options=options, autocommit=True, prepare_threshold=1
                )
        return self._connection

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                await connection.close()

    def cut(self) -> None:
        """End the connection under whoever waits for it: they get DatabaseUnavailable."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.closed:
            _cut(connection)


class KeepStore(_Linked):
    """The leases of people's requests, and who is gone."""

    async def extend(self, ids: Sequence[UUID], lease_s: float) -> None:
        """Keep the places of these requests for another `lease_s`."""
        async with _Group(self) as group:
            await group.run(_EXTEND, {"ids": list(ids), "lease_s": lease_s})

    async def cancelled(self, ids: Sequence[UUID]) -> list[UUID]:
        """Those of `ids` that were cancelled."""
        async with _Group(self) as group:
            found = await group.run(_CANCELLED, {"ids": list(ids)})
        return [row[0] for row in await found.fetchall()]


class LaneStore(_Linked):
    """Groups of one pool, on a connection of its own."""

    def __init__(self, database: Database, pool: str, worker: str, lease_s: float) -> None:
        super().__init__(database)
        self._given = {"pool": pool, "worker": worker, "lease_s": lease_s}

    async def at_once(
        self, writes: Writes, arrivals: Sequence[Arrival], expected: Expected
    ) -> dict[UUID, Landed]:
        """One group in one round trip; the arrivals' fates. All of them start, or none does."""
        async with _Group(self) as group:
            await group.run("BEGIN")
            await group.run(_LOCK, self._given)
            await self._write(group, writes)
            landed = await self._arrive(group, arrivals, expected)
            await group.run("COMMIT")
        rows = await landed.fetchall()
        return {row[0]: Landed(row[1], row[2]) for row in rows}

    async def write(self, writes: Writes) -> None:
        """Write without the lock, in one round trip: ends only ever free places."""
        async with _Group(self) as group:
            await self._write(group, writes)

    async def look(self) -> Seen | None:
        """The pool as it stands, without the lock, in one round trip. None: it has no limit row."""
        async with _Group(self) as group:
            found = await self._see(group)
        return await _seen(found)

    def by_turns(self, writes: Writes, arrivals: Sequence[Arrival]) -> _Turns:
        """One group in two round trips: a context that gives what is seen under the lock."""
        return _Turns(self, writes, arrivals)

    async def _write(self, group: _Group, writes: Writes) -> None:
        if writes.ends:
            await group.run(_END, self._given | _ends_of(writes.ends))
        if writes.firsts:
            ids, ago = [one for one, _ in writes.firsts], [ago_s for _, ago_s in writes.firsts]
            await group.run(_FIRST_TOKEN, self._given | {"ids": ids, "ago": ago})
        for name, task in writes.answered:
            await group.run(_ANSWERED, {"name": name, "task": task})

    async def _arrive(
        self, group: _Group, arrivals: Sequence[Arrival], expected: Expected | None
    ) -> Any:
        given = self._given | columns_of([one.request for one in arrivals])
        places = [one.place or (None, None, None) for one in arrivals]
        given |= {
            "calls": [one.call for one in arrivals],
            "endpoints": [place[0] for place in places],
            "roles": [place[1] for place in places],
            "answered": [place[2] for place in places],
        }
        if expected is None:
            return await group.run(_ARRIVE, given)
        given |= {
            "mark": expected.mark,
            "total": expected.total,
            "outside": list(expected.outside),
            "names": [name for name, _, _ in expected.more],
            "more": [more for _, more, _ in expected.more],
            "places": [places for _, _, places in expected.more],
            "all": sum(more for name, more, _ in expected.more if name not in expected.outside),
        }
        return await group.run(_ARRIVE_AT_ONCE, given)

    async def _see(self, group: _Group) -> list[Any]:
        # The mark comes first: what changes after it makes it an old one, never a wrong one.
        statements = (_MARK, _READ, _STANDING, _OCCUPANCY, _LINE)
        return [await group.run(one, self._given) for one in statements]


class _Group:
    """Statements that are sent together. Their answers are awaited as the block ends."""

    def __init__(self, store: _Linked) -> None:
        self._store = store
        self._pipeline: Any = None
        self._connection: AsyncConnection[TupleRow] | None = None

    async def __aenter__(self) -> _Group:
        try:
            self._connection = await self._store.connected()
            self._pipeline = self._connection.pipeline()
            await self._pipeline.__aenter__()
        except (psycopg.Error, OSError) as error:
            raise await self._away(error) from error
        return self

    async def run(self, statement: str, given: dict[str, Any] | None = None) -> Any:
        """Send a statement; a cursor of which its rows may be had later."""
        assert self._connection is not None
        cursor = self._connection.cursor(binary=True)
        try:
            await cursor.execute(statement, given)
        except (psycopg.Error, OSError) as error:
            raise await self._away(error) from error
        return cursor

    async def __aexit__(self, *failed: Any) -> None:
        self._store.round_trips += 1
        try:
            await self._pipeline.__aexit__(*failed)
        except (psycopg.Error, OSError) as error:
            raise await self._away(error) from error
        if failed[0] is not None:
            await self._store.close()  # A transaction may be open on it.

    async def _away(self, error: Exception) -> DatabaseUnavailable:
        await self._store.close()
        told = str(error).strip().splitlines()
        return DatabaseUnavailable(f"Postgres does not answer: {told[0] if told else error!r}")


class _Turns:
    """A group in two round trips. Leave it with `starts` set: who takes which place."""

    def __init__(self, store: LaneStore, writes: Writes, arrivals: Sequence[Arrival]) -> None:
        self._store = store
        self._writes = writes
        self._arrivals = arrivals
        self._group = _Group(store)
        self.starts: Sequence[Start] = ()
        self.landed: dict[UUID, Landed] = {}
        self.seen: Seen | None = None

    async def __aenter__(self) -> _Turns:
        store, group = self._store, self._group
        await group.__aenter__()
        await group.run("BEGIN")
        lock = await group.run(_LOCK, store._given)
        await store._write(group, self._writes)
        landed = await store._arrive(group, self._arrivals, None) if self._arrivals else None
        found = await store._see(group)
        store.round_trips += 1
        try:
            if await lock.fetchone() is not None:
                self.seen = await _seen(found)
            rows = () if landed is None else await landed.fetchall()
        except (psycopg.Error, OSError) as error:
            raise await group._away(error) from error
        self.landed = {row[0]: Landed(False, row[2]) for row in rows}
        return self

    async def __aexit__(self, *failed: Any) -> None:
        if failed[0] is None:
            if self.starts:
                given = {
                    "ids": [one.id for one in self.starts],
                    "endpoints": [one.endpoint for one in self.starts],
                    "roles": [one.role for one in self.starts],
                    "answered": [one.model for one in self.starts],
                }
                await self._group.run(_START, self._store._given | given)
            await self._group.run("COMMIT")
        await self._group.__aexit__(*failed)


def _cut(connection: AsyncConnection[TupleRow]) -> None:
    """Shut the socket down; whoever waits on it is told that the server went away."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as own:
        own.shutdown(socket.SHUT_RDWR)


async def _seen(found: Sequence[Any]) -> Seen | None:
    mark = await found[0].fetchone()
    row = await found[1].fetchone()
    if row is None:
        return None
    state, tuned, now = row
    told = await found[2].fetchall()
    names = [column.name for column in found[2].description]
    rows = [dict(zip(names, one, strict=True)) for one in told]
    flying: dict[str, int] = {}
    for what, endpoint, count in await found[3].fetchall():
        if what != "queued":
            flying[endpoint or ""] = flying.get(endpoint or "", 0) + count
    return Seen(
        state=State.from_json(state or {}),
        tuned=tuned or {},
        now=now,
        standing=standings(rows),
        flying=flying,
        line=await found[4].fetchall(),
        mark=mark[0],
        doubted=frozenset(one["name"] for one in rows if one["doubted"]),
    )


def _ends_of(ends: Sequence[End]) -> dict[str, list[Any]]:
    return {
        "ids": [one.id for one in ends],
        "states": [str(one.state) for one in ends],
        "ago": [one.ago_s for one in ends],
        "firsts": [one.first_ago_s for one in ends],
        "codes": [one.error_code for one in ends],
        "prompts": [one.prompt_tokens for one in ends],
        "completions": [one.completion_tokens for one in ends],
        "money": [one.money for one in ends],
        "rough": [one.rough for one in ends],
    }


_STANDING = psycopgs(STANDING)
_OCCUPANCY = psycopgs(OCCUPANCY)
_ANSWERED = psycopgs(ANSWERED)
_EXTEND = psycopgs(EXTEND)
_CANCELLED = psycopgs(CANCELLED)

_READ = """
    SELECT state, tuned, clock_timestamp() FROM throttle_limits WHERE pool = %(pool)s
"""

_LOCK = "SELECT 1 FROM throttle_limits WHERE pool = %(pool)s FOR UPDATE"

_OWN = "worker = %(worker)s"
"""A row that another worker has taken over is that worker's to write."""

_END = f"""
    UPDATE interactive_requests SET state = ended.state, lease_until = NULL,
        finished_at = clock_timestamp() - make_interval(secs => ended.ago),
        first_token_at = coalesce(first_token_at,
            clock_timestamp() - make_interval(secs => ended.first)),
        error_code = ended.code, prompt_tokens = ended.prompt, completion_tokens = ended.completion,
        money = ended.money, rough = ended.rough
    FROM unnest(%(ids)s::uuid[], %(states)s::text[], %(ago)s::float8[], %(firsts)s::float8[],
        %(codes)s::text[], %(prompts)s::int[], %(completions)s::int[], %(money)s::float8[],
        %(rough)s::boolean[])
        AS ended (id, state, ago, first, code, prompt, completion, money, rough)
    WHERE interactive_requests.id = ended.id AND {_OWN}
"""

_FIRST_TOKEN = f"""
    UPDATE interactive_requests
    SET first_token_at = clock_timestamp() - make_interval(secs => begun.ago)
    FROM unnest(%(ids)s::uuid[], %(ago)s::float8[]) AS begun (id, ago)
    WHERE interactive_requests.id = begun.id AND first_token_at IS NULL AND {_OWN}
"""

_START = f"""
    UPDATE interactive_requests SET state = 'running', endpoint = begun.endpoint,
        role = begun.role, answered_model = begun.answered, started_at = clock_timestamp(),
        lease_until = clock_timestamp() + make_interval(secs => %(lease_s)s)
    FROM unnest(%(ids)s::uuid[], %(endpoints)s::text[], %(roles)s::text[], %(answered)s::text[])
        AS begun (id, endpoint, role, answered)
    WHERE interactive_requests.id = begun.id AND {_OWN}
"""

# A call that several share is in the line once, where its first request is.
_LINE = """
    SELECT coalesce(rides_on, id), model FROM interactive_requests
    WHERE state = 'queued' AND pool = %(pool)s AND lease_until > clock_timestamp()
    ORDER BY priority DESC, submitted_at, id
"""

_MARK_OF = """
    SELECT concat_ws('/', (SELECT tuned::text FROM throttle_limits WHERE pool = %(pool)s),
        (SELECT string_agg(ROW(name, refusals, coalesce(cool_until > clock_timestamp(), false),
            breaker, error_code, failed_model, openings, draining, slow, pace, added)::text, ';'
            ORDER BY name)
         FROM endpoints WHERE pool = %(pool)s))
"""

_MARK = f"SELECT hashtextextended(({_MARK_OF}), 0)"

_NEW = """
    unnest(%(ids)s::uuid[], %(task_types)s::text[], %(models)s::text[], %(users)s::text[],
        %(priorities)s::int[], %(max_tokens)s::int[], %(submitted)s::timestamptz[],
        %(deadlines)s::timestamptz[], %(calls)s::uuid[], %(endpoints)s::text[],
        %(roles)s::text[], %(answered)s::text[])
        WITH ORDINALITY AS new (id, task_type, model, user_id, priority, max_tokens, submitted_at,
            deadline_at, call, endpoint, role, answered, nth)
"""

# A message that the broker delivers again finds its row and takes it over.
_TAKE_OVER = """
    ON CONFLICT (id) DO UPDATE SET pool = excluded.pool, task_type = excluded.task_type,
        model = excluded.model, user_id = excluded.user_id, priority = excluded.priority,
        max_tokens = excluded.max_tokens, submitted_at = excluded.submitted_at,
        deadline_at = excluded.deadline_at, worker = excluded.worker,
        state = CASE WHEN mine.cancel_requested THEN 'queued' ELSE excluded.state END,
        endpoint = excluded.endpoint, role = excluded.role, rides_on = excluded.rides_on,
        answered_model = excluded.answered_model, lease_until = excluded.lease_until,
        started_at = excluded.started_at, first_token_at = NULL, finished_at = NULL,
        error_code = NULL
    RETURNING id, state = 'running', cancel_requested
"""

_INTO = """
    INSERT INTO interactive_requests AS mine (id, pool, task_type, model, user_id, priority,
        max_tokens, submitted_at, deadline_at, worker, lease_until, rides_on, ahead, state,
        endpoint, role, answered_model, started_at)
    SELECT new.id, %(pool)s, new.task_type, new.model, new.user_id, new.priority, new.max_tokens,
        new.submitted_at, new.deadline_at, %(worker)s,
        clock_timestamp() + make_interval(secs => %(lease_s)s), nullif(new.call, new.id),
"""

_AHEAD = """
        new.nth - 1 + (SELECT count(*) FROM interactive_requests
            WHERE state IN ('queued','running') AND pool = %(pool)s),
"""

_ARRIVE = f"{_INTO} {_AHEAD} 'queued', NULL, NULL, NULL, NULL FROM {_NEW} {_TAKE_OVER}"

# What is in flight is counted as in `OCCUPANCY`; nobody may wait, and nothing have changed that the
# choice of endpoints rests on.
_ARRIVE_AT_ONCE = f"""
    WITH flying AS MATERIALIZED (
        SELECT endpoint, sum(n) AS n FROM ({_OCCUPANCY}) AS counted
        WHERE what <> 'queued' GROUP BY endpoint
    ), room AS MATERIALIZED (
        SELECT NOT EXISTS (SELECT FROM interactive_requests WHERE state = 'queued'
                AND pool = %(pool)s AND lease_until > clock_timestamp())
            AND hashtextextended(({_MARK_OF}), 0) = %(mark)s::bigint
            AND %(all)s + coalesce((SELECT sum(n) FROM flying
                WHERE endpoint IS NULL OR endpoint <> ALL(%(outside)s::text[])), 0) <= %(total)s
            AND NOT EXISTS (SELECT
                FROM unnest(%(names)s::text[], %(more)s::int[], %(places)s::int[])
                    AS at (endpoint, more, places)
                LEFT JOIN flying USING (endpoint)
                WHERE coalesce(flying.n, 0) + at.more > at.places) AS ok
    )
    {_INTO} {_AHEAD}
        CASE WHEN room.ok THEN 'running' ELSE 'queued' END,
        CASE WHEN room.ok THEN new.endpoint END, CASE WHEN room.ok THEN new.role END,
        CASE WHEN room.ok THEN new.answered END, CASE WHEN room.ok THEN clock_timestamp() END
    FROM room, {_NEW} {_TAKE_OVER}
"""
