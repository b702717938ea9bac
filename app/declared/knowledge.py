"""What a worker tells of itself: its queues, its kinds, its models, and the keys that it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.declared.endpoints import spec_of
from app.domain.routing import EndpointSpec
from app.kinds.registry import kinds
from app.services.pools import Pools
from app.settings import Settings
from app.storage.worker_store import About


def about(queues: Sequence[str], pools: Pools, environment: Mapping[str, str]) -> About:
    """Of a worker of these queues with these pools, where `environment` is its own."""
    return About(
        queues=tuple(queues),
        kinds=tuple(kinds()),
        serves={
            name: sorted(
                {m for spec in pool.endpoints for m in (*spec.models, *spec.stands_in_for)}
            )
            for name, pool in pools.by_name.items()
        },
        unset=unset_of(pools.endpoints, environment),
    )


def unset_of(specs: Sequence[EndpointSpec], environment: Mapping[str, str]) -> dict[str, str]:
    """By endpoint, the variable of its key that is not set, or empty, in `environment`."""
    return {
        spec.name: spec.api_key_env
        for spec in specs
        if spec.api_key_env and not environment.get(spec.api_key_env)
    }


def unset_keys(settings: Settings, environment: Mapping[str, str]) -> list[str]:
    """A sentence for each declared endpoint whose key is in no variable of `environment`."""
    specs = [spec_of(one) for one in settings.endpoints]
    return [
        f"endpoint {name!r}: the variable {variable} (its api_key_env) is not set here; where the "
        "workers run without it, jobs that need this endpoint pause"
        for name, variable in unset_of(specs, environment).items()
    ]
