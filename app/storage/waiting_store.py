"""What open jobs wait for, as the tables have it: chunks by when they may be had, and more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from app.domain.waiting import ChunksNow


@dataclass(frozen=True, slots=True)
class Away:
    """An endpoint's last failure, and when it is tried again after it; None: nothing is known."""

    code: str | None = None
    back_at: datetime | None = None


class WaitingStore:
    """Queries over several tables, within the caller's transaction. Each takes all jobs at once."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def chunks(self, job_ids: Sequence[int]) -> dict[int, ChunksNow]:
        """Open chunks by job; a lease that ran out counts as ready."""
        rows = self._tx.execute(_CHUNKS, {"job_ids": list(job_ids)})
        return {
            row.job_id: ChunksNow(row.ready, row.in_flight, row.later, row.later_at) for row in rows
        }

    def uncompleted(self, job_ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        """By job, the keys of those that it comes after and that have not completed."""
        rows = self._tx.execute(_UNCOMPLETED, {"job_ids": list(job_ids)})
        return {row.id: tuple(row.keys) for row in rows}

    def away(self, pool: str) -> dict[str, Away]:
        """By name, why endpoints of the pool that get no work get none."""
        rows = self._tx.execute(_AWAY, {"pool": pool})
        return {row.name: Away(row.code, row.back_at) for row in rows}


_CHUNKS = text("""
    SELECT job_id,
        CAST(count(*) FILTER (WHERE state = 'ready' AND coalesce(not_before <= clock_timestamp(),
            true) OR state = 'leased' AND lease_until <= clock_timestamp()) AS int) AS ready,
        CAST(count(*) FILTER (WHERE state = 'leased' AND lease_until > clock_timestamp()) AS int)
            AS in_flight,
        CAST(count(*) FILTER (WHERE state = 'ready' AND not_before > clock_timestamp()) AS int)
            AS later,
        min(not_before) FILTER (WHERE state = 'ready' AND not_before > clock_timestamp())
            AS later_at
    FROM chunks WHERE job_id = ANY(:job_ids) AND state IN ('ready','leased') GROUP BY job_id
""")

_UNCOMPLETED = text("""
    SELECT j.id, array_agg(coalesce(b.key, CAST(first.id AS text)) ORDER BY first.id) AS keys
    FROM jobs j CROSS JOIN LATERAL unnest(j.after) AS first (id)
    LEFT JOIN jobs b ON b.id = first.id
    WHERE j.id = ANY(:job_ids) AND b.state IS DISTINCT FROM 'completed' GROUP BY j.id
""")

_AWAY = text("""
    SELECT name, error_code AS code,
        CASE WHEN breaker <> 'closed' THEN open_until ELSE cool_until END AS back_at
    FROM endpoints WHERE pool = :pool AND (breaker <> 'closed' OR cool_until > clock_timestamp())
""")
