"""How everything stands at this moment: what scaling, the metrics page and the report look at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from app.domain.health import Breaker
from app.domain.routing import EndpointHealth
from app.domain.windows import Window, is_open


@dataclass(frozen=True, slots=True)
class PoolGauges:
    """A pool now. `state` is the throttle's, as JSON; `pressure` None: no decision is in force.

    `jobs_wait_s`: how long the one that waits longest among the jobs with work to claim has had
    nothing in flight; `people_wait_s`: the same of interactive requests without a place.
    """

    pool: str
    limit: int
    reason: str
    pressure: float | None
    state: Mapping[str, Any]
    tuned: Mapping[str, Any]
    batch: int
    interactive: int
    queued: int
    jobs_wait_s: float
    people_wait_s: float
    now: datetime

    @property
    def in_flight(self) -> int:
        """Both classes."""
        return self.batch + self.interactive

    @property
    def oldest_wait_s(self) -> float:
        """Of both classes."""
        return max(self.jobs_wait_s, self.people_wait_s)


@dataclass(frozen=True, slots=True)
class EndpointGauges:
    """An endpoint now. `added`: it was added at run time, and raises its pool's total."""

    name: str
    pool: str
    kind: str
    role: str
    max_concurrency: int
    added: bool
    draining: bool
    breaker: str
    cooling: bool
    slow: bool
    refusals: int
    openings: int
    spoils: str | None
    batch: int
    interactive: int

    @property
    def health(self) -> EndpointHealth:
        """How it stands, as a claim sees it."""
        return EndpointHealth(
            cooling=self.cooling,
            refusals=self.refusals,
            breaker=Breaker(self.breaker),
            openings=self.openings,
            spoils=self.spoils,
            draining=self.draining,
            slow=self.slow,
        )

    @property
    def state(self) -> str:
        """draining, open, half_open, cooling, slow or ready: the one that says most."""
        if self.draining:
            return "draining"
        if self.breaker != "closed":
            return self.breaker
        if self.cooling:
            return "cooling"
        return "slow" if self.slow else "ready"


@dataclass(frozen=True, slots=True)
class Backlog:
    """Work of jobs that may run and that has no result yet. `kind` is the jobs' kind."""

    kind: str
    jobs: int
    items: int


class GaugeStore:
    """Queries over several tables, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def pools(self) -> dict[str, PoolGauges]:
        """Every pool that has a limit row."""
        waits: dict[str, float] = defaultdict(float)
        for row in self._tx.execute(_STARVED):
            if _may_run(row):
                waits[row.pool] = max(waits[row.pool], row.wait_s)
        rows = self._tx.execute(_POOLS).mappings()
        return {row["pool"]: PoolGauges(**row, jobs_wait_s=waits[row["pool"]]) for row in rows}

    def endpoints(self) -> list[EndpointGauges]:
        """Every endpoint, by pool and name."""
        return [EndpointGauges(**row) for row in self._tx.execute(_ENDPOINTS).mappings()]

    def backlog(self) -> dict[str, list[Backlog]]:
        """By pool."""
        sums: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
        for row in self._tx.execute(_BACKLOG):
            if _may_run(row):
                jobs, items = sums[row.pool].get(row.kind, (0, 0))
                sums[row.pool][row.kind] = jobs + row.jobs, items + row.items
        return {
            pool: [Backlog(kind, jobs, items) for kind, (jobs, items) in kinds.items()]
            for pool, kinds in sums.items()
        }


def _may_run(row: Any) -> bool:
    return is_open(row.window and Window.from_json(row.window), row.now)


_POOLS = text("""
    WITH leased AS (
        SELECT pool, count(*) AS n FROM chunks
        WHERE state = 'leased' AND lease_until > clock_timestamp() GROUP BY pool
    ), people AS (
        SELECT pool,
            count(DISTINCT coalesce(rides_on, id)) FILTER (WHERE state = 'running') AS running,
            count(DISTINCT coalesce(rides_on, id)) FILTER (WHERE state = 'queued') AS queued,
            min(submitted_at) FILTER (WHERE state = 'queued') AS oldest_at
        FROM interactive_requests
        WHERE state IN ('queued','running') AND lease_until > clock_timestamp() GROUP BY pool
    )
    SELECT l.pool, l.value AS limit, l.reason,
        CASE WHEN l.valid_until > clock_timestamp() THEN l.pressure END AS pressure,
        coalesce(l.state, '{}') AS state, coalesce(l.tuned, '{}') AS tuned,
        CAST(coalesce(leased.n, 0) AS int) AS batch,
        CAST(coalesce(people.running, 0) AS int) AS interactive,
        CAST(coalesce(people.queued, 0) AS int) AS queued,
        CAST(greatest(0, coalesce(extract(epoch FROM clock_timestamp() - people.oldest_at), 0))
            AS float8) AS people_wait_s,
        clock_timestamp() AS now
    FROM throttle_limits l
    LEFT JOIN leased USING (pool) LEFT JOIN people USING (pool)
    ORDER BY l.pool
""")

_ENDPOINTS = text("""
    WITH flying AS (
        SELECT endpoint, count(*) AS batch, 0 AS interactive FROM chunks
        WHERE state = 'leased' AND lease_until > clock_timestamp() GROUP BY endpoint
        UNION ALL
        SELECT endpoint, 0, count(DISTINCT coalesce(rides_on, id)) FROM interactive_requests
        WHERE state = 'running' AND lease_until > clock_timestamp() GROUP BY endpoint
    ), sums AS (
        SELECT endpoint, sum(batch) AS batch, sum(interactive) AS interactive FROM flying
        GROUP BY endpoint
    )
    SELECT e.name, e.pool, e.kind, e.role, e.max_concurrency, e.added IS NOT NULL AS added,
        e.draining, e.breaker, coalesce(e.cool_until > clock_timestamp(), false) AS cooling,
        e.slow, e.refusals, e.openings, CASE WHEN e.breaker <> 'closed'
            AND e.error_code = 'bad_reply' THEN e.failed_model END AS spoils,
        CAST(coalesce(s.batch, 0) AS int) AS batch,
        CAST(coalesce(s.interactive, 0) AS int) AS interactive
    FROM endpoints e LEFT JOIN sums s ON s.endpoint = e.name
    ORDER BY e.pool, e.name
""")

# Without those that come after others; the hours of a window are looked at by the caller.
_RUNNABLE = """
    j.state IN ('ready','running') AND NOT EXISTS (
        SELECT FROM unnest(j.after) AS before (id)
        LEFT JOIN jobs b ON b.id = before.id WHERE b.state IS DISTINCT FROM 'completed')
"""

_STARVED = text(f"""
    SELECT j.pool, j."window", clock_timestamp() AS now,
        CAST(extract(epoch FROM clock_timestamp() - greatest(j.ready_at, j.served_at,
            ready.not_before)) AS float8) AS wait_s
    FROM jobs j
    CROSS JOIN LATERAL (
        SELECT c.not_before FROM chunks c WHERE c.job_id = j.id AND c.state = 'ready'
          AND coalesce(c.not_before, now()) <= now() ORDER BY c.no LIMIT 1) AS ready
    WHERE {_RUNNABLE} AND NOT EXISTS (
        SELECT FROM chunks c WHERE c.state = 'leased' AND c.pool = j.pool AND c.job_id = j.id)
""")

# Both halves read a partial index: the chunks that are done, by far the most, are not looked at.
_BACKLOG = text(f"""
    WITH open AS (
        SELECT c.job_id, sum(c.items - c.ok - c.unchanged - c.empty - c.failed) AS items
        FROM jobs j JOIN chunks c ON c.job_id = j.id
        WHERE c.state = 'ready' AND {_RUNNABLE} GROUP BY c.job_id
        UNION ALL
        SELECT c.job_id, sum(c.items - c.ok - c.unchanged - c.empty - c.failed)
        FROM chunks c WHERE c.state = 'leased' GROUP BY c.job_id
    )
    SELECT j.pool, j.kind, j."window", clock_timestamp() AS now, count(DISTINCT j.id) AS jobs,
        CAST(sum(o.items) AS bigint) AS items
    FROM open o JOIN jobs j ON j.id = o.job_id GROUP BY j.pool, j.kind, j."window"
""")
