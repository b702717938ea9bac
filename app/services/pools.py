"""What services know of pools: bounds, policy and endpoints, built from the settings by wiring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.domain.routing import EndpointSpec, serving
from app.domain.throttle.values import Bounds, PolicySettings
from app.errors import UnknownName


@dataclass(frozen=True, slots=True)
class Pool:
    """Endpoints that share capacity, and so one limit."""

    bounds: Bounds
    policy: PolicySettings
    endpoints: tuple[EndpointSpec, ...]

    @property
    def name(self) -> str:
        """The pool's name."""
        return self.bounds.pool


@dataclass(frozen=True, slots=True)
class Pools:
    """All pools, by name."""

    by_name: Mapping[str, Pool]

    def named(self, name: str) -> Pool:
        """The pool called `name`; UnknownName lists the others."""
        try:
            return self.by_name[name]
        except KeyError:
            raise UnknownName("pool", name, list(self.by_name)) from None

    def for_model(self, model: str) -> Pool:
        """The first pool with an endpoint that serves `model`; UnknownName lists the models."""
        for pool in self.by_name.values():
            if serving(model, pool.endpoints):
                return pool
        raise UnknownName("endpoint for model", model, sorted(self.models))

    @property
    def models(self) -> set[str]:
        """Every model that some endpoint serves."""
        return {m for pool in self.by_name.values() for e in pool.endpoints for m in e.models}

    @property
    def endpoints(self) -> list[EndpointSpec]:
        """Every endpoint."""
        return [e for pool in self.by_name.values() for e in pool.endpoints]
