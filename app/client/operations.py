"""Limits and endpoints from Python: the verbs of `giveway throttle` and `giveway endpoints`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.declared.endpoints import endpoint_of
from app.domain.routing import EndpointSpec
from app.errors import UsageError
from app.services.inspection import PoolView
from app.storage.fleet_store import Faring
from app.wiring import Wiring


class Throttle:
    """The limits of the pools; `Giveway.throttle`. `pool` None: the only one there is."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring

    def show(self, pool: str | None = None) -> PoolView:
        """A pool as it stands: its limit, the reason, and what people get."""
        return self._wiring.inspection.pool(_one(self._wiring, pool))

    def set(
        self, limit: int, *, for_s: float = 3600.0, pool: str | None = None, reason: str = ""
    ) -> PoolView:
        """Hold the limit by hand for so long. UsageError: the pool does not allow it."""
        name = _one(self._wiring, pool)
        self._wiring.steering.override(name, limit, for_s, reason or None)
        return self.show(name)

    def clear(self, pool: str | None = None) -> bool:
        """The policy rules again; False: nothing was set."""
        return self._wiring.steering.clear_override(_one(self._wiring, pool))

    def tune(self, changes: Mapping[str, Any], *, pool: str | None = None) -> PoolView:
        """Change settings of a pool while everything runs, until `untune`."""
        name = _one(self._wiring, pool)
        self._wiring.steering.tune(name, changes)
        return self.show(name)

    def untune(self, pool: str | None = None) -> PoolView:
        """As it is declared again."""
        name = _one(self._wiring, pool)
        self._wiring.steering.untune(name)
        return self.show(name)

    def history(
        self, pool: str | None = None, *, since_s: float = 600.0, most: int = 50
    ) -> list[dict[str, Any]]:
        """The newest decisions, oldest first."""
        return self._wiring.inspection.decisions(_one(self._wiring, pool), most, since_s)


class Endpoints:
    """Model servers, while everything runs; `Giveway.endpoints`. NotFound names those there are."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring

    def list(self) -> list[Faring]:
        """Each with its state, what it has in flight, and how it did in the last minutes."""
        return self._wiring.endpoints.listed()

    def add(
        self, name: str, url: str, models: Sequence[str], *, pool: str | None = None, **more: Any
    ) -> EndpointSpec:
        """Add one: every process sees it at once. `more`: any other key of `[[endpoints]]`.
        ConfigError: it cannot be; StateConflict: the name is taken."""
        given = {"name": name, "base_url": url, "models": tuple(models), **more}
        spec = endpoint_of({**given, "pool": _one(self._wiring, pool)})
        self._wiring.endpoints.add(spec)
        return spec

    def drain(self, name: str) -> None:
        """Nothing new goes there; what it has, it finishes."""
        self._wiring.endpoints.drain(name)

    def undrain(self, name: str) -> None:
        """It gets work again."""
        self._wiring.endpoints.undrain(name)

    def remove(self, name: str, *, now: bool = False) -> bool:
        """Forget one that was added; False: it is drained first, ask again. `now`: whatever it
        still has. StateConflict: the settings declare it."""
        return self._wiring.endpoints.remove(name, now=now)


def _one(wiring: Wiring, pool: str | None) -> str:
    """The pool called `pool`; None: the only one. UsageError: there are several."""
    if pool is not None:
        return wiring.pools.named(pool).name
    names = sorted(wiring.pools.by_name)
    if len(names) != 1:
        raise UsageError(f"name a pool: {', '.join(names)}")
    return names[0]
