"""What a pool has and lets in now, in one place. `pool` is what a pool is; `now` says how many may
be in flight at this moment, and whoever asks (claims, the lane, the report, metrics) asks there."""

from app.services.pools.pool import (
    TUNABLE,
    Pool,
    Pools,
    check_changes,
    current,
    pool_for,
    present,
    standing_as,
    tuned,
    with_added,
)

__all__ = [
    "TUNABLE",
    "Pool",
    "Pools",
    "check_changes",
    "current",
    "pool_for",
    "present",
    "standing_as",
    "tuned",
    "with_added",
]
