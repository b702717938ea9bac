"""The endpoints that everyone knows of, as an agent needs them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from app.domain.routing import EndpointSpec
from app.errors import NotFound, StateConflict
from app.storage.scaler_store import ScalerStore

if TYPE_CHECKING:
    from app.services.endpoints import Endpoints
    from app.storage.database import Database


class Roster(Protocol):
    """All of it raises DatabaseUnavailable."""

    def wanted(self, pool: str) -> int | None:
        """How many are wanted; None: nothing was decided yet."""
        ...

    def join(self, spec: EndpointSpec) -> None:
        """From the next claim on it gets work; one that was leaving stays."""
        ...

    def leave(self, name: str) -> None:
        """From the next claim on it gets nothing new."""
        ...

    def remove(self, name: str, *, now: bool = False) -> bool:
        """Have it forgotten; False: it still has requests in flight. `now`: even so."""
        ...


class SharedRoster:
    """The roster in the database."""

    def __init__(self, database: Database, endpoints: Endpoints) -> None:
        self._database = database
        self._endpoints = endpoints

    def wanted(self, pool: str) -> int | None:
        with self._database.transaction() as tx:
            return ScalerStore(tx).wanted(pool)

    def join(self, spec: EndpointSpec) -> None:
        try:
            self._endpoints.add(spec)
        except StateConflict:
            self._endpoints.undrain(spec.name)

    def leave(self, name: str) -> None:
        with suppress(NotFound):
            self._endpoints.drain(name)

    def remove(self, name: str, *, now: bool = False) -> bool:
        try:
            return self._endpoints.remove(name, now=now)
        except NotFound:
            return True
