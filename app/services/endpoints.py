"""Endpoints at run time: seen, added, drained and removed, without a process being restarted."""

from __future__ import annotations

from sqlalchemy import Connection

from app.domain.events import EndpointSteered, Observer
from app.domain.routing import EndpointSpec
from app.errors import NotFound, StateConflict
from app.services.pools import Pools
from app.storage.database import Database
from app.storage.endpoint_store import EndpointStore
from app.storage.fleet_store import Faring, FleetStore
from app.storage.limit_store import LimitStore

WINDOW_S = 300.0
"""Over so long `finished`, `failed` and the mean latency are counted."""


class Endpoints:
    """The use case behind `giveway endpoints`."""

    def __init__(self, database: Database, pools: Pools, observer: Observer) -> None:
        self._database = database
        self._pools = pools
        self._observer = observer

    def listed(self) -> list[Faring]:
        """Every endpoint, by pool and name."""
        with self._database.transaction() as tx:
            return FleetStore(tx).faring(WINDOW_S)

    def one(self, name: str) -> EndpointSpec:
        """The endpoint called `name`, as it is declared or was added. NotFound lists the others."""
        declared = {spec.name: spec for spec in self._pools.endpoints}
        if name in declared:
            return declared[name]
        known = self.specs()
        if name not in known:
            raise _unknown(name, list(known))
        return known[name]

    def specs(self) -> dict[str, EndpointSpec]:
        """Every endpoint by its name, as it is declared or was added."""
        with self._database.transaction() as tx:
            added = {spec.name: spec for spec in EndpointStore(tx).added(draining=True)}
        return added | {spec.name: spec for spec in self._pools.endpoints}

    def add(self, spec: EndpointSpec) -> None:
        """Add it: every process sees it from its next look on.

        UnknownName: no such pool; StateConflict: the name is taken.
        """
        self._pools.named(spec.pool)
        with self._database.transaction() as tx:
            if not FleetStore(tx).add(spec):
                raise StateConflict(
                    f"an endpoint {spec.name!r} is there already; choose another name, or remove "
                    "that one first"
                )
        self._observer.saw(EndpointSteered(spec.pool, spec.name, "added"))

    def drain(self, name: str) -> None:
        """Nothing new goes there; what it has, it finishes. Twice is no error. NotFound."""
        self._set_draining(name, draining=True)

    def undrain(self, name: str) -> None:
        """It gets work again. NotFound."""
        self._set_draining(name, draining=False)

    def remove(self, name: str, *, now: bool = False) -> bool:
        """Forget one that was added; False: it is drained first, ask again when it has finished.

        `now`: whatever it still has. NotFound; StateConflict: the settings declare it.
        """
        spec = self.one(name)
        if any(name == one.name for one in self._pools.endpoints):
            raise StateConflict(
                f"endpoint {name!r} is declared in the settings: take it out there, or drain it"
            )
        with self._database.transaction() as tx:
            # Who claims counts after this lock; so whatever goes there is seen here.
            LimitStore(tx).lock(spec.pool)
            fleet = FleetStore(tx)
            if not now and fleet.running(name):
                fleet.drain(name, draining=True)
                return False
            fleet.remove(name)
        self._observer.saw(EndpointSteered(spec.pool, name, "removed"))
        return True

    def running(self, name: str) -> int:
        """Requests in flight there."""
        with self._database.transaction() as tx:
            return FleetStore(tx).running(name)

    def _set_draining(self, name: str, *, draining: bool) -> None:
        spec = self.one(name)
        with self._database.transaction() as tx:
            if not FleetStore(tx).drain(name, draining=draining):
                self._declare(tx, spec, draining=draining)
        action = "drained" if draining else "undrained"
        self._observer.saw(EndpointSteered(spec.pool, name, action))

    def _declare(self, tx: Connection, spec: EndpointSpec, *, draining: bool) -> None:
        """A row for one that is declared since no process has started."""
        EndpointStore(tx).declare(self._pools.endpoints)
        FleetStore(tx).drain(spec.name, draining=draining)


def _unknown(name: str, known: list[str]) -> NotFound:
    return NotFound(f"no endpoint {name!r}; known: {', '.join(sorted(known)) or 'none'}")
