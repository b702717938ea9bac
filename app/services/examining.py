"""Examining: a running installation is looked at, and what is wrong with it is said. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from app import clock
from app.domain.examination import broker as of_broker
from app.domain.examination import server as of_server
from app.domain.examination import vacuum, work
from app.domain.examination.broker import Broker
from app.domain.examination.findings import Code, Finding, Severity, worst_first
from app.domain.examination.server import Server
from app.errors import DatabaseUnavailable, StackNotRunning, Unavailable
from app.services.pools import Pools
from app.services.waits import stuck
from app.storage import schema
from app.storage.database import Database
from app.storage.examination_store import ExaminationStore, ServerRow
from app.storage.worker_store import WorkerStore

T = TypeVar("T")

_PATIENCE_S = 2.0
"""For one query; where one has to wait so long, the others are not tried for ever either."""
_IN_ALL_S = 8.0


@dataclass(frozen=True, slots=True)
class Installation:
    """What the settings say of it. `where` is the database without its password; `connections` of
    one process of each sort; `scaled`: pools that may have no endpoint for a while; `longest_s`:
    how long a message may be held; `unset`: by endpoint, the variable of its key that this process
    lacks."""

    where: str
    pools: frozenset[str]
    scaled: frozenset[str]
    connections: Mapping[str, int]
    valid_for_s: float
    call_timeout_s: float
    longest_s: float
    unset: Mapping[str, str] = field(default_factory=dict)


class Examining:
    """The use case behind `giveway doctor`."""

    def __init__(
        self,
        database: Callable[[], Database],
        expected: Installation,
        pools: Pools,
    ) -> None:
        self._database = database
        self._expected = expected
        self._pools = pools

    def examine(
        self, broker: Callable[[], Broker], old_snapshot_s: float = vacuum.OLD_S
    ) -> list[Finding]:
        """Everything, worst first. What does not answer is a finding, not an error.

        `broker` looks at the broker. A snapshot of `old_snapshot_s` ago is old.
        """
        told = broker()
        found = [
            *of_broker.broker(told),
            *of_broker.queues(told),
            *of_broker.eviction(told),
            *of_broker.visibility(told, self._expected.longest_s),
        ]
        try:
            database = self._database()
            look = _Look(database, clock.monotonic_s() + _IN_ALL_S)
            found += self._of_server(look, old_snapshot_s)
            found += self._of_tables(look, told)
        except StackNotRunning as error:
            found += of_server.database_away("database", str(error))
        except Unavailable as error:
            found += of_server.database_away(self._expected.where, str(error))
        except (SQLAlchemyError, ValueError) as error:
            # The address is no address, or the driver has no such option; its text may hold a key.
            found += of_server.database_away(self._expected.where, type(error).__name__)
        return worst_first(found)

    def _of_server(self, look: _Look, old_snapshot_s: float) -> list[Finding]:
        """Unavailable: it does not answer at all."""
        before, began_s = clock.now(), clock.monotonic_s()
        row = look.first(lambda store: store.server())
        took_s = clock.monotonic_s() - began_s
        server = _server(row, self._expected.where, took_s * 1000)
        ahead_s = (before - row.now).total_seconds() + took_s / 2
        found = [
            *of_server.database(server),
            *of_server.vectors(server),
            *of_server.session(server),
            *of_server.clock(ahead_s, took_s / 2),
            *of_server.connections(server, self._expected.connections),
        ]
        holders = look.at(Code.SNAPSHOTS, lambda store: store.holders())
        if holders is not None:
            found += vacuum.snapshots(holders, old_snapshot_s)
        waiting = look.at(Code.BLOCKED, lambda store: store.blocked())
        if waiting is not None:
            found += vacuum.blocked(waiting)
        rows = look.at(Code.DEAD_ROWS, lambda store: store.rows())
        if rows is not None:
            found += vacuum.dead_rows(rows, autovacuum=row.autovacuum)
        return found

    def _of_tables(self, look: _Look, broker: Broker) -> list[Finding]:
        current, head = schema.current(look.database), schema.head()
        found = of_server.schema(current, head, known=schema.knows(current))
        if current is None:
            return found + look.missed
        expected = self._expected
        pools = look.at(Code.DECISIONS, lambda store: store.pools(expected.pools))
        endpoints = look.at(Code.ENDPOINTS, lambda store: store.endpoints())
        held = look.at(Code.JOBS, lambda store: store.held_jobs(expected.pools))
        waits = look.read(Code.WAITS, lambda tx: stuck(tx, self._pools))
        keys = look.read(Code.KEYS, lambda tx: (WorkerStore(tx).unset(), WorkerStore(tx).running()))
        receivers = look.at(Code.WEBHOOKS, lambda store: store.receivers())
        if pools is not None:
            newest = min((p.decided_s for p in pools if p.decided_s is not None), default=None)
            ticks = of_broker.ticks(newest, expected.valid_for_s, broker.waiting)
            found += ticks
            if ticks[0].severity is Severity.OK:
                found += work.decisions(pools, expected.pools)
            found += work.leases(pools)
        if endpoints is not None:
            found += work.endpoints(endpoints, expected.pools, expected.scaled)
        if pools is not None and endpoints is not None:
            serving = {one.pool for one in endpoints if one.serves}
            found += work.progress(pools, serving, expected.call_timeout_s)
        if held is not None:
            found += work.jobs(held)
        if waits is not None:
            found += work.waits([(job.key, why) for job, why in waits])
        if keys is not None:
            found += work.keys(keys[0], expected.unset, told=keys[1] > 0)
        if receivers is not None:
            found += work.webhooks(receivers)
        return found + look.missed


class _Look:
    """Looks at one concern after the other, each in a transaction of its own."""

    def __init__(self, database: Database, until_s: float) -> None:
        self.database = database
        self.missed: list[Finding] = []
        """What could not be looked at."""
        self._until_s = until_s

    def first(self, read: Callable[[ExaminationStore], T]) -> T:
        """What `read` reads. DatabaseUnavailable: nobody answers."""
        with self.database.transaction() as tx:
            return read(ExaminationStore(tx, _PATIENCE_S))

    def at(self, what: Code, read: Callable[[ExaminationStore], T]) -> T | None:
        """The same; None: it could not be read, and why is among what was missed."""
        return self.read(what, lambda tx: read(ExaminationStore(tx, _PATIENCE_S)))

    def read(self, what: Code, read: Callable[[Connection], T]) -> T | None:
        """The same, of whatever is asked in a transaction."""
        if clock.monotonic_s() > self._until_s:
            self.missed.append(of_server.unread(what, "the others took too long"))
            return None
        try:
            with self.database.transaction() as tx:
                ExaminationStore(tx, _PATIENCE_S)
                return read(tx)
        except DatabaseUnavailable as error:
            self.missed.append(of_server.unread(what, str(error)))
        except DBAPIError as error:
            self.missed.append(of_server.unread(what, type(error.orig).__name__))
        return None


def _server(row: ServerRow, where: str, answers_ms: float) -> Server:
    return Server(
        where=where,
        version=row.version,
        major=row.major,
        read_only=row.read_only,
        isolation=row.isolation,
        idle_timeout_s=row.idle_timeout_s,
        vectors=row.vectors,
        vectors_available=row.vectors_available,
        most_connections=row.room,
        connections=row.connections,
        ours=row.ours,
        answers_ms=answers_ms,
    )
