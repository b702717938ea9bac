"""Which endpoint and models a calibration is about, and what its pool looks like now."""

from __future__ import annotations

from app.domain.calibration.proposal import PoolNow
from app.domain.routing import EndpointSpec
from app.errors import UnknownName, UsageError
from app.services.calibration import Subject
from app.services.pools import Pools
from app.settings import Settings

_EMBEDDING = ("embed", "bge", "gte", "e5-", "minilm", "arctic", "nomic", "mpnet", "jina")
"""What names of embedding models hold."""


def subject(
    pools: Pools,
    pool: str | None,
    endpoint: str | None,
    chat_model: str | None,
    embed_model: str | None,
) -> Subject:
    """The endpoint to measure. UsageError: it is not clear which, or it has no chat model."""
    spec = _spec(pools, pool, endpoint)
    for named in (chat_model, embed_model):
        if named is not None and named not in spec.models:
            raise UnknownName(f"model at endpoint {spec.name!r}", named, spec.models)
    embeds = [name for name in spec.models if spec.kind == "tei" or _is_embedding(name)]
    chats = [name for name in spec.models if name not in embeds]
    if chat_model is None and not chats:
        raise UsageError(
            f"endpoint {spec.name!r} serves no chat model ({', '.join(spec.models)}); "
            "if one of them is, name it with --model"
        )
    others = [name for name in embeds if name != chat_model]
    return Subject(spec, chat_model or chats[0], embed_model or next(iter(others), None))


def pool_now(settings: Settings, spec: EndpointSpec) -> PoolNow:
    """What is kept of the endpoint's pool."""
    pool = settings.pool(spec.pool)
    if pool is None:  # `Settings` has seen to it that there is one.
        raise UnknownName("pool", spec.pool, [one.name for one in settings.pools])
    others = [e for e in settings.endpoints if e.pool == spec.pool and e.name != spec.name]
    return PoolNow(
        reserve=pool.reserve,
        batch_min=pool.batch_min,
        others=sum(other.max_concurrency for other in others),
        endpoints=1 + len(others),
    )


def _spec(pools: Pools, pool: str | None, endpoint: str | None) -> EndpointSpec:
    candidates = pools.endpoints if pool is None else list(pools.named(pool).endpoints)
    if endpoint is not None:
        found = [spec for spec in candidates if spec.name == endpoint]
        if not found:
            raise UnknownName("endpoint", endpoint, [spec.name for spec in candidates])
        return found[0]
    used = [one for one in pools.by_name.values() if one.endpoints]
    if pool is None and len(used) > 1:
        raise UsageError(f"name a pool with --pool: {', '.join(sorted(one.name for one in used))}")
    if not candidates:
        raise UsageError("no endpoint is declared; write [[endpoints]] into giveway.toml")
    primaries = [spec for spec in candidates if spec.role == "primary"]
    return (primaries or candidates)[0]


def _is_embedding(model: str) -> bool:
    return any(part in model.lower() for part in _EMBEDDING)
