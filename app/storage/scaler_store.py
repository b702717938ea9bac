"""Where automatic scaling of each pool stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Connection, text


@dataclass(frozen=True, slots=True)
class Scaler:
    """`wanted` endpoints of `pool` that come and go. `state` is `autoscale.State` as JSON; `told`
    is what a hook was told last, `telling_until` for how long somebody may still be telling it."""

    pool: str
    wanted: int
    state: Mapping[str, Any]
    told: int | None = None
    telling_until: datetime | None = None
    updated_at: datetime | None = None


class ScalerStore:
    """Queries on `scalers`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def alone(self) -> datetime | None:
        """The database's time, if this transaction is the one that may scale; else None."""
        row = self._tx.execute(_ALONE).one()
        return row.now if row.mine else None

    def all(self) -> dict[str, Scaler]:
        """By pool."""
        return {row.pool: _scaler(row) for row in self._tx.execute(_ALL)}

    def write(self, scalers: Sequence[Scaler]) -> None:
        """Store these, in one statement."""
        if not scalers:
            return
        told = [
            {
                "pool": one.pool,
                "wanted": one.wanted,
                "state": {
                    "scale": dict(one.state),
                    "told": one.told,
                    "telling_until": one.telling_until,
                },
            }
            for one in scalers
        ]
        self._tx.execute(_WRITE, {"told": orjson.dumps(told).decode()})

    def has_told(self, pool: str, wanted: int | None) -> None:
        """The hook of `pool` has ended; `wanted` None: it failed, so it is told again."""
        self._tx.execute(_HAS_TOLD, {"pool": pool, "wanted": wanted})

    def wanted(self, pool: str) -> int | None:
        """How many are wanted; None: nothing was ever decided."""
        found = self._tx.execute(_WANTED, {"pool": pool}).scalar_one_or_none()
        return None if found is None else int(found)


def _scaler(row: Any) -> Scaler:
    state = row.state or {}
    until = state.get("telling_until")
    return Scaler(
        pool=row.pool,
        wanted=row.wanted,
        state=state.get("scale") or {"wanted": row.wanted},
        told=state.get("told"),
        telling_until=until and datetime.fromisoformat(until),
        updated_at=row.updated_at,
    )


_ALONE = text("""
    SELECT pg_try_advisory_xact_lock(hashtextextended('giveway.scale', 0)) AS mine,
        clock_timestamp() AS now
""")

_ALL = text("SELECT pool, wanted, state, updated_at FROM scalers")

_WRITE = text("""
    INSERT INTO scalers (pool, wanted, state, updated_at)
    SELECT pool, wanted, state, clock_timestamp()
    FROM jsonb_to_recordset(CAST(:told AS jsonb)) AS t (pool text, wanted int, state jsonb)
    ON CONFLICT (pool) DO UPDATE SET wanted = excluded.wanted, state = excluded.state,
        updated_at = excluded.updated_at
""")

_HAS_TOLD = text("""
    UPDATE scalers SET state = state || jsonb_build_object('telling_until', NULL,
        'told', coalesce(to_jsonb(CAST(:wanted AS int)), state->'told'))
    WHERE pool = :pool
""")

_WANTED = text("SELECT wanted FROM scalers WHERE pool = :pool")
