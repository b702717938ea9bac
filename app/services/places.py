"""Places: a party waits for one in its pool, and takes it at the best endpoint that has room."""

from __future__ import annotations

import logging
from uuid import UUID

from sqlalchemy import Connection

from app import clock, errors
from app.domain.failover import (
    ROLES,
    Scene,
    away_s,
    nothing_left,
    patience_s,
    place,
    roles_open,
)
from app.domain.requests import before
from app.domain.routing import PRIMARY, Choice, chosen
from app.services.claiming import at_endpoints
from app.services.leases import Leases
from app.services.party import Party
from app.services.pools import Pool, Pools, current
from app.storage.database import Database
from app.storage.limit_store import LimitStore
from app.storage.request_store import RequestStore

log = logging.getLogger(__name__)

_LOOK_S = 0.01
"""How soon a request looks again for a place; the further back in line, the later."""
_LOOK_MOST_S = 0.2
_PATIENCE_S = 0.3


class Places:
    """Gives out places. The controller gates nobody here: only the pool's total does, of which the
    reserve is never batch's, and what each endpoint carries."""

    def __init__(self, database: Database, pools: Pools, leases: Leases, worker: str) -> None:
        self._database = database
        self._pools = pools
        self._leases = leases
        self._worker = worker

    def taken(self, party: Party) -> Choice:
        """The endpoint whose place the party has now.

        Raises what the last endpoint failed with when none is left to try, EndpointTimeout once the
        time is over, ConnectionFailed where every endpoint stays out of service, and Abandoned once
        nobody waits.
        """
        pool = self._pools.named(party.pool)
        try:
            return self._waited_for(party, pool)
        except errors.DatabaseUnavailable:
            return self._bold(party, pool)

    def _bold(self, party: Party, pool: Pool) -> Choice:
        """Without a database, an endpoint all the same.

        While Postgres is away no batch call starts, so what is in flight only falls: the person is
        served without a row rather than made to wait for our bookkeeping.
        """
        party.check()
        untried = [spec for spec in pool.endpoints if spec.name not in party.tried]
        choice = chosen(party.model, untried, {}, {}, roles=ROLES)
        if choice is None:
            if party.failed is not None:
                raise party.failed
            raise errors.DatabaseUnavailable(f"no endpoint of pool {pool.name!r} is known for sure")
        party.elsewhere = len(untried) > 1
        party.depart()
        log.warning("no database: a request goes to %s without a row", choice.spec.name)
        return choice

    def _waited_for(self, party: Party, pool: Pool) -> Choice:
        while True:
            found, party.recorded = self._database.patiently(
                lambda tx: self._looked(tx, party, pool), _PATIENCE_S
            )
            if isinstance(found, Choice):
                return found
            party.check()
            party.gone.wait(min(_LOOK_MOST_S, _LOOK_S * (1 + found)))

    def _looked(self, tx: Connection, party: Party, pool: Pool) -> tuple[Choice | int, set[UUID]]:
        """What a look finds, and whose rows are there once it is committed."""
        recorded = set(party.recorded)
        return self._look(tx, party, pool, recorded), recorded

    def _look(self, tx: Connection, party: Party, pool: Pool, recorded: set[UUID]) -> Choice | int:
        """The place taken, or how many calls come first. Raises what `party` failed with, if it was
        the last that could be asked."""
        self._record(tx, party, recorded)
        members = party.members()
        if not members or party.gone.is_set() or clock.monotonic_s() >= party.window.start_by_s:
            return 0
        limits, requests = LimitStore(tx), RequestStore(tx)
        row = limits.lock(pool.name)
        if row is None:
            limits.ensure([pool.bounds])
            row = limits.lock(pool.name)
            assert row is not None
        pool = current(tx, pool, row)
        if nothing_left(party.model, pool.endpoints, pool.health, party.tried):
            return self._nowhere(party)
        ahead = requests.ahead_of(min(members, key=before).id, pool.name)
        choice = self._best(tx, party, pool, ahead)
        if choice is None:
            return sum(ahead.values())
        if not party.depart():
            return 0
        self._record(tx, party, recorded)
        tried = {*party.tried, choice.spec.name}
        party.elsewhere = not nothing_left(party.model, pool.endpoints, pool.health, tried)
        ids = [one.id for one in party.members()]
        requests.start(ids, choice.spec.name, choice.role, choice.model)
        return choice

    @staticmethod
    def _nowhere(party: Party) -> int:
        """No endpoint is in service. One that was not asked may come back soon; until then nobody
        need look often."""
        if party.failed is not None:
            raise party.failed
        waited_s = clock.monotonic_s() - party.window.came_s
        if waited_s >= away_s(party.window.answer_by_s - party.window.came_s):
            raise errors.ConnectionFailed(
                f"no endpoint of pool {party.pool!r} for {party.model!r} is in service; "
                "the request was dropped unstarted; see: giveway endpoints list"
            )
        return round(_LOOK_MOST_S / _LOOK_S)

    def _best(
        self, tx: Connection, party: Party, pool: Pool, ahead: dict[str, int]
    ) -> Choice | None:
        occupancy = LimitStore(tx).occupancy(pool.name)
        in_flight = at_endpoints(pool, occupancy)
        elsewhere = sum(in_flight[spec.name] for spec in pool.endpoints if spec.role != PRIMARY)
        flying = occupancy.batch_total + occupancy.interactive_total - elsewhere
        scene = Scene(pool.endpoints, pool.health, in_flight, pool.bounds.total - flying, ahead)
        untried = [spec for spec in pool.endpoints if spec.name not in party.tried]
        time = party.window
        roles = roles_open(
            party.model,
            untried,
            pool.health,
            clock.monotonic_s() - time.came_s,
            patience_s(time.answer_by_s - time.came_s),
        )
        return place(party.model, scene, party.tried, roles)

    def _record(self, tx: Connection, party: Party, recorded: set[UUID]) -> None:
        """Rows for those who have none yet."""
        new = [one for one in party.members() if one.id not in recorded]
        gone = RequestStore(tx).arrive(new, self._worker, self._leases.lease_s, party.ride)
        recorded.update(one.id for one in new)
        party.leave(gone)
