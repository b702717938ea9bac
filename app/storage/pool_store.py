"""A pool with all that decides who may start in it, in one round trip, locked or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from app.storage.database import psycopgs, together
from app.storage.endpoint_store import STANDING, Standing, standings
from app.storage.limit_store import OCCUPANCY, ROW, LimitRow, Occupancy, limit_row, occupancy_of


@dataclass(frozen=True, slots=True)
class PoolSeen:
    """A pool's row, who is in flight, and its endpoints. `is_ready`: the job that was asked about
    has a chunk whose time has come."""

    row: LimitRow
    occupancy: Occupancy
    standing: Sequence[Standing]
    is_ready: bool


class PoolStore:
    """Queries within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def look(self, pool: str, job_id: int) -> PoolSeen | None:
        """The pool as it stands, without the lock; None: it has no limit row."""
        return self._seen(_ROW, pool, job_id)

    def locked(self, pool: str, job_id: int) -> PoolSeen:
        """A pool that was seen, under its lock until the transaction ends: the row is locked in a
        statement of its own, and what is counted after it is counted with a younger snapshot."""
        seen = self._seen(f"{_ROW} FOR UPDATE", pool, job_id)
        assert seen is not None, f"the limit row of pool {pool!r} was deleted"
        return seen

    def _seen(self, first: str, pool: str, job_id: int) -> PoolSeen | None:
        given = {"pool": pool, "job_id": job_id}
        statements = [(one, given) for one in (first, _OCCUPANCY, _STANDING, _READY)]
        row, flying, standing, ready = together(self._tx, statements)
        if not row:
            return None
        return PoolSeen(
            limit_row(row[0]), occupancy_of(flying), standings(standing), ready[0]["is_ready"]
        )


_ROW, _OCCUPANCY, _STANDING = psycopgs(ROW), psycopgs(OCCUPANCY), psycopgs(STANDING)

_READY = """
    SELECT EXISTS (SELECT FROM chunks WHERE job_id = %(job_id)s AND state = 'ready'
        AND coalesce(not_before, now()) <= now()) AS is_ready
"""
