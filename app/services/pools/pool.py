"""What services know of pools: bounds, policy and endpoints, built from the settings by wiring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection

from app.domain.routing import PRIMARY, EndpointHealth, EndpointSpec, serving
from app.domain.throttle.policies import check_options
from app.domain.throttle.values import Bounds, PolicySettings
from app.errors import ConfigError, UnknownName
from app.storage.database import Database
from app.storage.endpoint_store import EndpointStore, Standing
from app.storage.limit_store import LimitRow


@dataclass(frozen=True, slots=True)
class Pool:
    """Endpoints that share capacity, and so one limit.

    `health` by endpoint is known of a pool that `current` returned; without it all count as well.
    """

    bounds: Bounds
    policy: PolicySettings
    endpoints: tuple[EndpointSpec, ...]
    health: Mapping[str, EndpointHealth] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The pool's name."""
        return self.bounds.pool


_PLACES = ("total", "reserve", "batch_min", "batch_max")
_POLICY = (
    "target_p95_ms",
    "first_token_target_ms",
    "per_token_target_ms",
    "short_output_tokens",
    "people_capacity",
    "window_s",
)
_OPTION = "options."
TUNABLE = (*_PLACES, *_POLICY, "policy", f"{_OPTION}NAME")
"""What may be changed while everything runs."""


def tuned(pool: Pool, changes: Mapping[str, Any]) -> Pool:
    """`pool` with what an operator changed at run time over what the settings say.

    Raises UnknownName for a name that is not TUNABLE or a policy that does not exist, ConfigError
    for values that leave no lawful limit.
    """
    if not changes:
        return pool
    for name in changes:
        _check_name(name)
    options = {
        name.removeprefix(_OPTION): float(value)
        for name, value in changes.items()
        if name.startswith(_OPTION)
    }
    name = str(changes.get("policy", pool.policy.name))
    declared = pool.policy.options if name == pool.policy.name else {}
    policy = replace(
        pool.policy,
        **{name: changes[name] for name in _POLICY if name in changes},
        name=name,
        options=MappingProxyType({**declared, **options}),
    )
    check_options(policy.name, policy.options)
    places: dict[str, Any] = {name: int(changes[name]) for name in _PLACES if name in changes}
    bounds = replace(pool.bounds, **places)
    return replace(pool, policy=policy, bounds=bounds)


def current(tx: Connection, pool: Pool, row: LimitRow) -> Pool:
    """`pool` as it stands now: what is tuned, endpoints added at run time, and everyone's health.

    Each added primary that is not being drained raises the total, and batch_max with it, by its
    capacity. One query.
    """
    return present(tx, tuned(pool, row.tuned))


def present(tx: Connection, pool: Pool) -> Pool:
    """`pool` with the endpoints added at run time and everyone's health. One query."""
    return standing_as(pool, EndpointStore(tx).standing(pool.name))


def standing_as(pool: Pool, standing: Sequence[Standing]) -> Pool:
    """`pool` with its endpoints as they stand by `standing`."""
    added = tuple(one.added for one in standing if one.added is not None)
    health = {one.name: one.health for one in standing}
    if not added:
        return replace(pool, health=health)
    more = sum(
        spec.max_concurrency
        for spec in added
        if spec.role == PRIMARY and not health[spec.name].draining
    )
    bounds = with_more(pool.bounds, more)
    return replace(pool, bounds=bounds, endpoints=pool.endpoints + added, health=health)


def with_more(bounds: Bounds, places: int) -> Bounds:
    """`bounds` with so many places of primaries that were added at run time."""
    return replace(bounds, total=bounds.total + places, batch_max=bounds.batch_max + places)


def check_changes(changes: Mapping[str, Any]) -> None:
    """UnknownName for a name that is not TUNABLE, ConfigError for a value that is no number.

    `policy` takes a word; durations and a policy's own options may be fractions, all else is whole.
    """
    for name, value in changes.items():
        _check_name(name)
        if name == "policy":
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not isfinite(value):
            raise ConfigError(f"{name} must be a number, not {value!r}")
        may_be_fraction = name.startswith(_OPTION) or name.endswith(("_ms", "_s"))
        if not may_be_fraction and value != int(value):
            raise ConfigError(f"{name} must be a whole number, not {value!r}")


def _check_name(name: str) -> None:
    if name not in (*_PLACES, *_POLICY, "policy") and not name.startswith(_OPTION):
        raise UnknownName("tunable setting", name, TUNABLE)


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

    def for_model(self, model: str, added: Sequence[EndpointSpec] = ()) -> Pool:
        """The first pool with an endpoint that serves `model`, declared before `added`.

        UnknownName lists the models.
        """
        for pool in self.by_name.values():
            if serving(model, pool.endpoints):
                return pool
        for spec in serving(model, added):
            if spec.pool in self.by_name:
                return self.by_name[spec.pool]
        known = self.models | {name for spec in added for name in spec.models}
        raise UnknownName("endpoint for model", model, sorted(known))

    @property
    def models(self) -> set[str]:
        """Every model that some endpoint serves."""
        return {m for pool in self.by_name.values() for e in pool.endpoints for m in e.models}

    @property
    def endpoints(self) -> list[EndpointSpec]:
        """Every endpoint."""
        return [e for pool in self.by_name.values() for e in pool.endpoints]


def with_added(database: Database, pools: Pools) -> Pools:
    """`pools` with the endpoints added at run time."""
    with database.transaction() as tx:
        added = EndpointStore(tx).added()
    more = {
        name: replace(pool, endpoints=(*pool.endpoints, *(s for s in added if s.pool == name)))
        for name, pool in pools.by_name.items()
    }
    return Pools(more)


def pool_for(database: Database, pools: Pools, model: str) -> Pool:
    """The pool that serves `model`, endpoints added at run time included; UnknownName: none does.

    Asks the database only where no declared endpoint serves it.
    """
    try:
        return pools.for_model(model)
    except UnknownName:
        with database.transaction() as tx:
            added = EndpointStore(tx).added()
        return pools.for_model(model, added)
