"""Turns: which jobs of a pool may have its places now, what they hold, have used and still need."""

from __future__ import annotations

from datetime import datetime
from math import inf

from sqlalchemy import Connection, text

from app.domain.deadlines import Due
from app.domain.jobs import Failover
from app.domain.sharing import Candidate
from app.domain.windows import Window, is_open
from app.storage.after_store import BLOCKED
from app.storage.worker_store import DOABLE


class TurnStore:
    """Queries on `jobs` and their `chunks` and calls, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def candidates(self, pool: str, most: int) -> list[Candidate]:
        """Jobs of the pool with chunks that could be claimed now, each counted up to `most`.

        Without those that come after others, are outside their window, or are of a kind or model
        that no running worker knows.
        """
        rows = self._tx.execute(_CANDIDATES, {"pool": pool, "most": most})
        return [
            Candidate(
                job_id=row.job_id,
                kind=row.kind,
                priority=row.priority,
                weight=row.weight,
                max_in_flight=row.max_in_flight,
                deadline_at=row.deadline_at,
                ready=row.ready,
                in_flight=row.in_flight,
                tenant=row.tenant,
                tenant_in_flight=int(row.tenant_in_flight),
                waited_s=_waited_s(row.served_at, row.now),
                tenant_waited_s=_waited_s(row.tenant_served_at, row.now),
                key=row.key,
                model=row.model,
                failover=Failover(row.failover),
            )
            for row in rows
            if is_open(row.window and Window.from_json(row.window), row.now)
        ]

    def used(self, pool: str) -> dict[int, float]:
        """By job, the seconds of the pool's calls of the last minutes, the older the less."""
        rows = self._tx.execute(_USED, {"pool": pool, "fades_s": _FADES_S})
        return {row.job_id: float(row.used_s) for row in rows}

    def in_flight(self, job_id: int, pool: str) -> int:
        """Live leases of the job; reads the leased chunks of its pool, not all of the job's."""
        return int(self._tx.execute(_IN_FLIGHT, {"job_id": job_id, "pool": pool}).scalar_one())

    def served(self, job_id: int) -> None:
        """A chunk of it was leased now: it runs, and its turn is over."""
        self._tx.execute(_SERVED, {"job_id": job_id})

    def due(self, pool: str) -> list[Due]:
        """The pool's jobs with a deadline that may run now, and the pace they have made."""
        return list(self._due(pool).values())

    def due_of(self, job_id: int, pool: str) -> Due | None:
        """The same of one job; None: it has no deadline, or may not run now."""
        return self._due(pool).get(job_id)

    def _due(self, pool: str) -> dict[int, Due]:
        rows = self._tx.execute(_DUE, {"pool": pool})
        return {
            row.id: Due(row.deadline_at, row.remaining, row.done, row.place_s)
            for row in rows
            if is_open(row.window and Window.from_json(row.window), row.now)
        }


def _waited_s(since: datetime | None, now: datetime) -> float:
    return inf if since is None else max(0.0, (now - since).total_seconds())


_CANDIDATES = text(f"""
    WITH held AS (
        SELECT c.job_id, h.tenant, count(*) AS n
        FROM chunks c JOIN jobs h ON h.id = c.job_id
        WHERE c.state = 'leased' AND c.pool = :pool AND c.lease_until > now()
        GROUP BY c.job_id, h.tenant
    ), served AS (
        SELECT tenant, max(served_at) AS at FROM jobs
        WHERE pool = :pool AND state IN ('ready','running') GROUP BY tenant
    )
    SELECT j.id AS job_id, j.kind, j.priority, j.weight, j.max_in_flight, j.deadline_at,
           j.key, j.model, j.failover, ready.n AS ready, j.tenant, j.window,
           clock_timestamp() AS now,
           j.served_at, served.at AS tenant_served_at,
           coalesce((SELECT n FROM held WHERE held.job_id = j.id), 0) AS in_flight,
           coalesce((SELECT sum(n) FROM held WHERE held.tenant = j.tenant), 0) AS tenant_in_flight
    FROM jobs j JOIN served USING (tenant)
    CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM (
            SELECT FROM chunks c WHERE c.job_id = j.id AND c.state = 'ready'
              AND coalesce(c.not_before, now()) <= now() LIMIT :most) AS counted
    ) AS ready
    WHERE j.pool = :pool AND j.state IN ('ready','running') AND ready.n > 0
      AND NOT {BLOCKED.replace("jobs.", "j.")} AND {DOABLE}
""")

_FADES_S = 100.0
"""In so long, what a job has used falls to a third."""

_USED = text("""
    SELECT job_id, sum(seconds * exp(-extract(epoch FROM now() - ended_at) / :fades_s)) AS used_s
    FROM batch_calls
    WHERE pool = :pool AND ended_at > now() - 3 * make_interval(secs => :fades_s)
    GROUP BY job_id
""")

_IN_FLIGHT = text("""
    SELECT count(*) FROM chunks
    WHERE state = 'leased' AND pool = :pool AND job_id = :job_id AND lease_until > clock_timestamp()
""")

_SERVED = text("""
    UPDATE jobs SET state = 'running', served_at = clock_timestamp(),
        started_at = coalesce(started_at, now())
    WHERE id = :job_id AND state IN ('ready','running')
""")

_DUE = text(f"""
    SELECT j.id, j.deadline_at, s.done, j.total - s.ended AS remaining, s.place_s, j.window,
        clock_timestamp() AS now
    FROM jobs j CROSS JOIN LATERAL (
        SELECT coalesce(sum(c.ok), 0) AS done,
            coalesce(sum(c.ok + c.unchanged + c.empty + c.failed), 0) AS ended,
            CAST(coalesce(sum(c.held_s + CASE WHEN c.state = 'leased' THEN
                extract(epoch FROM clock_timestamp() - c.leased_at) ELSE 0 END), 0) AS float8)
                AS place_s
        FROM chunks c WHERE c.job_id = j.id) AS s
    WHERE j.pool = :pool AND j.state IN ('ready','running') AND j.deadline_at IS NOT NULL
      AND NOT {BLOCKED.replace("jobs.", "j.")}
""")
