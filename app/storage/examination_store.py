"""What an examination reads: a query a concern, cheap on a busy server, cut off when it is not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from app.domain.examination.vacuum import Blocked, Holder, Keeper, TableRows
from app.domain.examination.work import LOADING_S, TRIED, EndpointNow, JobNow, PoolNow, Receiver
from app.domain.health import Breaker
from app.domain.jobs import PAUSED_BY_HAND
from app.storage.gauge_store import GaugeStore

HOT = (
    "batch_calls",
    "chunks",
    "endpoints",
    "interactive_requests",
    "jobs",
    "rate_reservations",
    "throttle_decisions",
    "throttle_limits",
    "webhook_deliveries",
)
"""Our tables whose rows change or go all the time."""
_MOST_JOBS = 50


@dataclass(frozen=True, slots=True)
class ServerRow:
    """What the server says of itself and of this session. `now` is its clock; `room`: connections
    that our role may have together with everybody else; `vectors` None: no such extension here."""

    version: str
    major: int
    read_only: bool
    isolation: str
    idle_timeout_s: float
    autovacuum: bool
    vectors: str | None
    vectors_available: bool
    room: int
    connections: int
    ours: int
    now: datetime


class ExaminationStore:
    """Reads only, within the caller's transaction, none of whose statements takes longer than
    `patience_s`."""

    def __init__(self, tx: Connection, patience_s: float) -> None:
        self._tx = tx
        tx.execute(_PATIENCE, {"ms": str(max(1, int(patience_s * 1000)))})

    def server(self) -> ServerRow:
        """The server."""
        return ServerRow(**self._tx.execute(_SERVER).mappings().one())

    def holders(self) -> list[Holder]:
        """Sessions, prepared transactions and slots that keep old rows of this database, or locks,
        or may do so: this session and running vacuums are none."""
        return [_holder(row) for row in self._tx.execute(_HOLDERS).mappings()]

    def blocked(self) -> list[Blocked]:
        """Sessions of this database that wait for others, and for whom."""
        return [Blocked(**row) for row in self._tx.execute(_BLOCKED).mappings()]

    def rows(self) -> list[TableRows]:
        """How many rows of our hot tables are dead."""
        found = self._tx.execute(_ROWS, {"names": list(HOT)}).mappings()
        return [TableRows(**row) for row in found]

    def pools(self, declared: Collection[str]) -> list[PoolNow]:
        """The declared pools that have a limit row."""
        gauges = GaugeStore(self._tx).pools()
        rows = self._tx.execute(_POOLS, {"names": list(declared)}).mappings()
        return [_pool(dict(row), gauges[row["name"]]) for row in rows if row["name"] in gauges]

    def endpoints(self) -> list[EndpointNow]:
        """All of them, by pool and name."""
        rows = self._tx.execute(_ENDPOINTS).mappings()
        return [EndpointNow(**{**row, "breaker": Breaker(row["breaker"])}) for row in rows]

    def held_jobs(self, declared: Collection[str]) -> list[JobNow]:
        """Open jobs that do not get on by themselves, those without a declared pool first."""
        values = {
            "names": list(declared),
            "loading_s": LOADING_S,
            "by_hand": PAUSED_BY_HAND,
            "most": _MOST_JOBS,
        }
        return [JobNow(**row) for row in self._tx.execute(_JOBS, values).mappings()]

    def receivers(self) -> list[Receiver]:
        """Where webhooks go, by host; their paths may be secret and stay here."""
        rows = self._tx.execute(_RECEIVERS, {"tried": TRIED}).mappings()
        return [Receiver(**row) for row in rows]


def _holder(row: Any) -> Holder:
    return Holder(**{**row, "keeper": Keeper(row["keeper"])})


def _pool(row: dict[str, Any], gauges: Any) -> PoolNow:
    return PoolNow(
        **row,
        limit=gauges.limit,
        batch=gauges.batch,
        people=gauges.interactive,
        queued=gauges.queued,
        jobs_wait_s=gauges.jobs_wait_s,
        people_wait_s=gauges.people_wait_s,
    )


_PATIENCE = text("""
    SELECT set_config('statement_timeout', :ms, true), set_config('lock_timeout', :ms, true)
""")

# A role that may not see the others' sessions sees that they are there, but not of what type.
_SERVER = text("""
    SELECT current_setting('server_version') AS version,
        CAST(current_setting('server_version_num') AS int) / 10000 AS major,
        pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS read_only,
        current_setting('transaction_isolation') AS isolation,
        (SELECT CAST(setting AS float8) / 1000 FROM pg_settings
         WHERE name = 'idle_in_transaction_session_timeout') AS idle_timeout_s,
        current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on'
            AS autovacuum,
        (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS vectors,
        EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') AS vectors_available,
        least(
            CAST(current_setting('max_connections') AS int)
                - CAST(current_setting('superuser_reserved_connections') AS int)
                - CAST(coalesce(current_setting('reserved_connections', true), '0') AS int),
            (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user),
            (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database())
        ) AS room,
        CAST(s.connections AS int) AS connections, CAST(s.ours AS int) AS ours,
        clock_timestamp() AS now
    FROM (
        SELECT count(*) AS connections,
            count(*) FILTER (WHERE datname = current_database() AND usename = current_user
                AND application_name LIKE 'giveway %') AS ours
        FROM pg_stat_activity WHERE coalesce(backend_type, 'client backend') = 'client backend'
    ) AS s
""")

# What holds back the vacuum of this database: its own sessions; writers of others, since snapshots
# here begin no later than they; standbys that give feedback.
_HOLDERS = text("""
    SELECT 'session' AS keeper, CAST(a.pid AS text) AS name,
        concat_ws(' of ', coalesce(nullif(a.application_name, ''), a.backend_type), a.usename)
            AS who,
        CAST(extract(epoch FROM clock_timestamp() - a.xact_start) AS float8) AS age_s,
        greatest(age(a.backend_xid), age(a.backend_xmin)) AS xids,
        CASE WHEN a.state LIKE 'idle in transaction%'
            THEN CAST(extract(epoch FROM clock_timestamp() - a.state_change) AS float8)
        END AS idle_s,
        a.backend_type IS NULL AS hidden
    FROM pg_stat_activity a
    WHERE a.pid <> pg_backend_pid()
      AND (a.datname = current_database() OR a.backend_xid IS NOT NULL
           OR a.backend_type = 'walsender')
      AND (a.xact_start IS NOT NULL OR a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
      AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v WHERE v.pid = a.pid)
    UNION ALL
    SELECT 'prepared', gid, owner,
        CAST(extract(epoch FROM clock_timestamp() - prepared) AS float8), age(transaction),
        NULL, false
    FROM pg_prepared_xacts WHERE database = current_database()
    UNION ALL
    SELECT 'slot', slot_name, CASE WHEN active THEN 'in use' ELSE 'unused' END, NULL,
        greatest(age(xmin), age(catalog_xmin)), NULL, false
    FROM pg_replication_slots WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL
""")

# What somebody runs may hold their texts: it is told by its sort only.
_BLOCKED = text("""
    WITH sessions AS (
        SELECT a.pid, a.datname,
            concat_ws(' of ', coalesce(nullif(a.application_name, ''), a.backend_type), a.usename)
                AS who,
            CASE WHEN i.pid IS NOT NULL
                    THEN 'builds an index' || coalesce(' (' || i.phase || ')', '')
                WHEN a.state LIKE 'idle in transaction%' THEN 'idles in a transaction'
                WHEN v.pid IS NOT NULL THEN 'vacuums'
                WHEN a.query IS NULL OR a.query = '' THEN 'runs something'
                ELSE 'runs ' || upper(substring(a.query FROM '^ *([A-Za-z]+)')) END AS does,
            CAST(extract(epoch FROM clock_timestamp() - CASE WHEN a.state LIKE 'idle in trans%'
                THEN a.state_change ELSE a.query_start END) AS float8) AS since_s
        FROM pg_stat_activity a
        LEFT JOIN pg_stat_progress_create_index i ON i.pid = a.pid
        LEFT JOIN pg_stat_progress_vacuum v ON v.pid = a.pid)
    SELECT s.pid, s.who, coalesce(s.does, 'runs something') AS does,
        coalesce(CAST(extract(epoch FROM clock_timestamp() - (
            SELECT min(l.waitstart) FROM pg_locks l WHERE l.pid = s.pid AND NOT l.granted
        )) AS float8), s.since_s, 0) AS waits_s,
        nullif(b.pid, 0) AS by, coalesce(o.who, '') AS by_who,
        coalesce(o.does, 'runs something') AS by_does, coalesce(o.since_s, 0) AS by_s
    FROM sessions s
    CROSS JOIN LATERAL (SELECT DISTINCT unnest(pg_blocking_pids(s.pid)) AS pid) AS b
    LEFT JOIN sessions o ON o.pid = b.pid
    WHERE s.datname = current_database() AND s.pid <> pg_backend_pid()
""")

_ROWS = text("""
    SELECT relname AS table, n_live_tup AS live, n_dead_tup AS dead,
        CAST(extract(epoch FROM clock_timestamp() - greatest(last_vacuum, last_autovacuum))
            AS float8) AS vacuumed_s
    FROM pg_stat_user_tables
    WHERE relid IN (SELECT to_regclass(name) FROM unnest(CAST(:names AS text[])) AS hot (name))
    ORDER BY relname
""")

_POOLS = text("""
    WITH leased AS (
        SELECT pool,
            count(DISTINCT worker) FILTER (WHERE lease_until > clock_timestamp()) AS workers,
            min(leased_at) FILTER (WHERE lease_until > clock_timestamp()) AS oldest_at,
            count(*) FILTER (WHERE lease_until <= clock_timestamp()) AS lapsed,
            min(lease_until) AS lapsed_at
        FROM chunks WHERE state = 'leased' GROUP BY pool
    )
    SELECT l.pool AS name,
        CAST(extract(epoch FROM clock_timestamp() - l.computed_at) AS float8) AS decided_s,
        coalesce(l.valid_until > clock_timestamp(), false) AS in_force,
        CAST(coalesce(leased.workers, 0) AS int) AS workers,
        CAST(extract(epoch FROM clock_timestamp() - leased.oldest_at) AS float8) AS lease_s,
        CAST(extract(epoch FROM clock_timestamp() - (
            SELECT max(ended_at) FROM batch_calls c WHERE c.pool = l.pool)) AS float8) AS call_s,
        CAST(coalesce(leased.lapsed, 0) AS int) AS lapsed,
        CAST(coalesce(extract(epoch FROM clock_timestamp() - leased.lapsed_at), 0) AS float8)
            AS lapsed_s
    FROM throttle_limits l LEFT JOIN leased USING (pool)
    WHERE l.pool = ANY(:names) ORDER BY l.pool
""")

_ENDPOINTS = text("""
    SELECT name, pool, role, breaker, coalesce(cool_until > clock_timestamp(), false) AS cooling,
        draining, error_code AS code
    FROM endpoints ORDER BY pool, name
""")

_JOBS = text("""
    SELECT key, state, pool, reason,
        CAST(extract(epoch FROM clock_timestamp() - created_at) AS float8) AS age_s,
        NOT pool = ANY(:names) AS homeless
    FROM jobs
    WHERE state = 'paused'
       OR state IN ('ready','running') AND NOT pool = ANY(:names)
       OR state = 'loading' AND created_at < clock_timestamp() - make_interval(secs => :loading_s)
    ORDER BY homeless DESC, state = 'paused' AND coalesce(reason, :by_hand) = :by_hand, id
    LIMIT :most
""")

_RECEIVERS = text("""
    SELECT coalesce(substring(url FROM '://(?:[^/?#]*@)?([^/?#:@]+)'), '?') AS host,
        CAST(count(*) FILTER (WHERE state = 'given_up') AS int) AS given_up,
        CAST(count(*) FILTER (WHERE state = 'waiting' AND attempt >= :tried) AS int) AS failing,
        CAST(greatest(0, coalesce(extract(epoch FROM clock_timestamp()
            - min(not_before) FILTER (WHERE state = 'waiting')), 0)) AS float8) AS late_s,
        (array_agg(status ORDER BY id DESC) FILTER (WHERE status >= 300))[1] AS status
    FROM webhook_deliveries
    WHERE state = 'waiting'
       OR state = 'given_up' AND finished_at > clock_timestamp() - interval '1 day'
    GROUP BY 1 ORDER BY 1
""")
