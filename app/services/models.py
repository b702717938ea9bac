"""Where a job runs that calls several models, or none."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.routing import EndpointSpec, serving
from app.errors import BadParams
from app.services.pools import Pool, Pools
from app.storage.database import Database
from app.storage.endpoint_store import EndpointStore


def pool_of(database: Database, pools: Pools, models: Sequence[str]) -> Pool:
    """The first pool that serves all `models`; for none of them, the first pool there is.

    Declared endpoints are looked at before those added at run time. UnknownName: nobody serves one
    of them; BadParams: they are served, but in no pool together.
    """
    found = _serving_all(pools, models, ())
    if found is not None:
        return found
    with database.transaction() as tx:
        added = EndpointStore(tx).added()
    found = _serving_all(pools, models, added)
    if found is not None:
        return found
    homes = [pools.for_model(model, added).name for model in models]
    stranger = next(model for model, home in zip(models, homes, strict=True) if home != homes[0])
    raise BadParams(
        f"model {stranger!r} is not served by pool {homes[0]!r}, where {models[0]!r} runs; all "
        "models of a job must be served by one pool"
    )


def _serving_all(pools: Pools, models: Sequence[str], added: Sequence[EndpointSpec]) -> Pool | None:
    for pool in pools.by_name.values():
        specs = (*pool.endpoints, *(spec for spec in added if spec.pool == pool.name))
        if all(serving(model, specs) for model in models):
            return pool
    return None
