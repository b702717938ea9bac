"""The declared pools: their bounds, their policy and the endpoints that are in them."""

from __future__ import annotations

from types import MappingProxyType

from app.declared.endpoints import spec_of
from app.domain.throttle.policies import check_options
from app.domain.throttle.values import Bounds, PolicySettings
from app.services.pools import Pool, Pools
from app.settings import PoolSettings, Settings

_PER_TOKEN_MS = PolicySettings().per_token_target_ms


def pools_of(settings: Settings) -> Pools:
    """Pools with their endpoints. UnknownName: a policy that does not exist."""
    return Pools(MappingProxyType({one.name: _pool(one, settings) for one in settings.pools}))


def _pool(pool: PoolSettings, settings: Settings) -> Pool:
    throttle = settings.throttle
    name = pool.policy or throttle.policy
    check_options(name, pool.options)
    policy = PolicySettings(
        name=name,
        target_p95_ms=pool.target_p95_ms,
        first_token_target_ms=pool.first_token_target_ms or pool.target_p95_ms,
        per_token_target_ms=pool.per_token_target_ms or _PER_TOKEN_MS,
        people_capacity=pool.people_capacity,
        deadline_before_people=pool.deadline_before_people,
        short_output_tokens=pool.short_output_tokens,
        rps_threshold=throttle.rps_threshold,
        window_s=throttle.window_s,
        alpha=throttle.alpha,
        valid_for_s=throttle.valid_for_s,
        options=MappingProxyType(dict(pool.options)),
    )
    bounds = Bounds(pool.total, pool.reserve, pool.batch_min, pool.ceiling, pool.name)
    specs = tuple(spec_of(one) for one in settings.endpoints if one.pool == pool.name)
    return Pool(bounds, policy, specs)
