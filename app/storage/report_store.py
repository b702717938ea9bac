"""What happened over a span of time, counted by the database: the statements behind the report.

A span is cut into `columns` equal parts for what is drawn over time; part 0 is the oldest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Connection, text

from app.domain.throttle.samples import OVERLOAD_CODES


@dataclass(frozen=True, slots=True)
class Span:
    """From `since` to `until`, in so many `columns`, of these pools."""

    since: datetime
    until: datetime
    columns: int
    pools: tuple[str, ...]

    @property
    def column_s(self) -> float:
        """How long one column is."""
        return (self.until - self.since).total_seconds() / self.columns


@dataclass(frozen=True, slots=True)
class Targets:
    """What the people of a pool are promised; see `PolicySettings`."""

    pool: str
    target_ms: float
    first_ms: float
    token_ms: float
    short: int


Row = dict[str, Any]


class ReportStore:
    """Queries over several tables, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def span(self, since_s: float, columns: int, pools: Sequence[str]) -> Span:
        """The last `since_s` seconds by the database's clock."""
        row = self._tx.execute(_SPAN, {"since_s": since_s}).one()
        return Span(row.since, row.until, columns, tuple(pools))

    def first_s(self, since_s: float) -> float | None:
        """How many seconds ago the first thing happened within the last `since_s`; None: nothing
        did."""
        found = self._tx.execute(_FIRST, {"since_s": since_s}).scalar_one()
        return None if found is None else float(found)

    def items(self, span: Span) -> list[Row]:
        """Items of batch that were answered, by pool and column."""
        return self._rows(_ITEMS, _of(span))

    def people(self, span: Span, targets: Sequence[Targets]) -> list[Row]:
        """A row a pool and column, and a row a pool with column None for the whole span.

        Percentiles in ms (None: nobody), requests, failed ones, and the share of `rated` ones that
        were on target; requests that ended in the span.
        """
        told = orjson.dumps([asdict(one) for one in targets]).decode()
        values = {**_of(span), "targets": told, "overload": sorted(OVERLOAD_CODES)}
        return self._rows(_PEOPLE, values)

    def limits(self, span: Span) -> list[Row]:
        """The last decision of each pool and column: limit, pressure, reason."""
        return self._rows(_LIMITS, _of(span))

    def endpoints(self, span: Span) -> list[Row]:
        """What each endpoint did, both classes: finished, failed, seconds, tokens, money."""
        return self._rows(_ENDPOINTS, _of(span))

    def busy(self, span: Span) -> list[Row]:
        """Seconds of requests in flight by endpoint and column."""
        return self._rows(_BUSY, _of(span))

    def errors(self, span: Span) -> list[Row]:
        """How many errors of which code by column: at calls of batch, at people's requests, and at
        an endpoint before they went on to another."""
        return self._rows(_ERRORS, _of(span))

    def jobs(self, span: Span, most: int) -> list[Row]:
        """The newest `most` jobs that were not over when the span began, with their progress."""
        return self._rows(_JOBS, {**_of(span), "most": most})

    def failed_items(self, job_ids: Sequence[int]) -> list[Row]:
        """Failed items of these jobs by code."""
        return self._rows(_FAILED_ITEMS, {"job_ids": list(job_ids)}) if job_ids else []

    def _rows(self, statement: Any, values: dict[str, Any]) -> list[Row]:
        return [dict(row) for row in self._tx.execute(statement, values).mappings()]


def _of(span: Span) -> dict[str, Any]:
    return {
        "since": span.since,
        "until": span.until,
        "column_s": span.column_s,
        "pools": list(span.pools),
    }


_SPAN = text("SELECT now() - make_interval(secs => :since_s) AS since, now() AS until")

_FIRST = text("""
    WITH edge AS MATERIALIZED (SELECT now() - make_interval(secs => :since_s) AS since)
    SELECT CAST(extract(epoch FROM now() - least(
        (SELECT min(computed_at) FROM throttle_decisions, edge WHERE computed_at > since),
        (SELECT min(finished_at) FROM interactive_requests, edge WHERE finished_at > since),
        (SELECT min(ended_at) FROM batch_calls, edge WHERE ended_at > since),
        (SELECT min(at) FROM events, edge WHERE at > since))) AS float8)
""")

_ITEMS = text("""
    SELECT pool, part, CAST(sum(items) AS bigint) AS items FROM (
        SELECT pool, items,
            CAST(floor(extract(epoch FROM ended_at - :since) / :column_s) AS int) AS part
        FROM batch_calls WHERE pool = ANY(:pools)
          AND ended_at > :since AND ended_at <= :until AND error_code IS NULL) calls
    GROUP BY pool, part ORDER BY pool, part
""")

_PEOPLE = text("""
    WITH goals AS (
        SELECT * FROM jsonb_to_recordset(CAST(:targets AS jsonb)) AS t (
            pool text, target_ms float8, first_ms float8, token_ms float8, short int)
    ), timed AS (
        SELECT g.*, r.error_code, r.task_type = 'chat' AS streams,
            CAST(floor(extract(epoch FROM r.finished_at - :since) / :column_s) AS int) AS part,
            extract(epoch FROM r.finished_at - r.submitted_at) * 1000 AS whole_ms,
            extract(epoch FROM r.first_token_at - r.submitted_at) * 1000 AS to_first_ms,
            extract(epoch FROM r.started_at - r.submitted_at) * 1000 AS queue_ms,
            r.completion_tokens, coalesce(r.completion_tokens <= g.short, false) AS is_short
        FROM interactive_requests r JOIN goals g ON g.pool = r.pool
        WHERE r.finished_at > :since AND r.finished_at <= :until
    ), rated AS (
        SELECT t.*, CASE
            WHEN error_code IS NOT NULL THEN CASE WHEN error_code = ANY(:overload) THEN false END
            WHEN NOT streams OR is_short OR to_first_ms IS NULL THEN whole_ms <= target_ms
            ELSE to_first_ms <= first_ms AND coalesce((whole_ms - to_first_ms)
                / nullif(completion_tokens - 1, 0) <= token_ms, true)
            END AS on_target
        FROM timed t
    )
    SELECT pool, part, count(*) AS requests,
        count(*) FILTER (WHERE error_code IS NOT NULL) AS failed,
        count(on_target) AS rated,
        CAST(count(*) FILTER (WHERE on_target) AS float8) / nullif(count(on_target), 0)
            AS on_target,
        percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY CAST(queue_ms AS float8))
            AS queue_ms,
        percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY CAST(to_first_ms AS float8))
            AS first_token_ms,
        percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY CAST(whole_ms AS float8))
            FILTER (WHERE error_code IS NULL) AS whole_ms
    FROM (SELECT pool, part, error_code, on_target, queue_ms, to_first_ms, whole_ms FROM rated) r
    GROUP BY GROUPING SETS ((pool), (pool, part)) ORDER BY pool, part NULLS FIRST
""")

_LIMITS = text("""
    SELECT DISTINCT ON (pool, part) pool, part, value AS limit, pressure, reason
    FROM (SELECT pool, value, pressure, reason, computed_at, id,
            CAST(floor(extract(epoch FROM computed_at - :since) / :column_s) AS int) AS part
        FROM throttle_decisions
        WHERE pool = ANY(:pools) AND computed_at > :since AND computed_at <= :until) d
    ORDER BY pool, part, computed_at DESC, id DESC
""")

# Requests that share a call are one here, as they take one place.
_CALLS = """
    SELECT endpoint, pool, ended_at - make_interval(secs => seconds) AS began_at, ended_at,
        'batch' AS class, prompt_tokens, completion_tokens, money, rough, error_code
    FROM batch_calls WHERE pool = ANY(:pools) AND ended_at > :since AND ended_at <= :until
    UNION ALL
    SELECT endpoint, pool, min(started_at), max(coalesce(finished_at, :until)), 'interactive',
        sum(prompt_tokens), sum(completion_tokens), sum(money), bool_or(rough),
        CASE WHEN bool_or(finished_at IS NULL) THEN 'running' ELSE max(error_code) END
    FROM interactive_requests
    WHERE pool = ANY(:pools) AND started_at IS NOT NULL AND endpoint IS NOT NULL AND (
        (finished_at > :since AND finished_at <= :until)
        OR (state = 'running' AND lease_until > :until))
    GROUP BY coalesce(rides_on, id), endpoint, pool
    UNION ALL
    SELECT endpoint, pool, ended_at - make_interval(secs => seconds), ended_at, 'interactive',
        0, 0, 0, false, error_code
    FROM detours WHERE pool = ANY(:pools) AND ended_at > :since AND ended_at <= :until
"""

_ENDPOINTS = text(f"""
    SELECT endpoint, pool,
        count(*) FILTER (WHERE error_code IS NULL) AS finished,
        count(*) FILTER (WHERE error_code NOT IN ('running','abandoned','rate_budget')) AS failed,
        count(*) FILTER (WHERE error_code IS NULL AND class = 'interactive') AS people,
        CAST(avg(extract(epoch FROM ended_at - began_at) * 1000)
            FILTER (WHERE error_code IS NULL) AS float8) AS mean_ms,
        CAST(coalesce(sum(prompt_tokens), 0) AS bigint) AS prompt_tokens,
        CAST(coalesce(sum(completion_tokens), 0) AS bigint) AS completion_tokens,
        CAST(coalesce(sum(coalesce(prompt_tokens, 0) + coalesce(completion_tokens, 0))
            FILTER (WHERE rough), 0) AS bigint) AS rough_tokens,
        CAST(coalesce(sum(money), 0) AS float8) AS money
    FROM ({_CALLS}) calls GROUP BY endpoint, pool ORDER BY pool, endpoint
""")

# Each call counts in every column that it lies in, by as much of it as lies there.
_BUSY = text(f"""
    SELECT endpoint, part, CAST(sum(extract(epoch FROM
        least(ended_at, :since + make_interval(secs => (part + 1) * :column_s))
        - greatest(began_at, :since + make_interval(secs => part * :column_s)))) AS float8)
        AS seconds
    FROM (SELECT endpoint, greatest(began_at, :since) AS began_at, ended_at
        FROM ({_CALLS}) of_all) calls
    CROSS JOIN LATERAL generate_series(
        CAST(floor(extract(epoch FROM began_at - :since) / :column_s) AS int),
        CAST(ceil(extract(epoch FROM ended_at - :since) / :column_s) AS int) - 1) AS part
    GROUP BY endpoint, part ORDER BY endpoint, part
""")

_ERRORS = text("""
    SELECT whose, code, part, count(*) AS n FROM (
        SELECT 'batch' AS whose, error_code AS code,
            CAST(floor(extract(epoch FROM ended_at - :since) / :column_s) AS int) AS part
        FROM batch_calls WHERE pool = ANY(:pools)
          AND ended_at > :since AND ended_at <= :until AND error_code IS NOT NULL
        UNION ALL
        SELECT 'interactive', error_code,
            CAST(floor(extract(epoch FROM finished_at - :since) / :column_s) AS int)
        FROM interactive_requests WHERE pool = ANY(:pools)
          AND finished_at > :since AND finished_at <= :until AND error_code IS NOT NULL
        UNION ALL
        SELECT 'detour', error_code,
            CAST(floor(extract(epoch FROM ended_at - :since) / :column_s) AS int)
        FROM detours WHERE pool = ANY(:pools) AND ended_at > :since AND ended_at <= :until
    ) errors GROUP BY whose, code, part ORDER BY whose, code, part
""")

_JOBS = text("""
    SELECT j.id, j.key, j.kind, j.pool, j.model, j.state, j.created_at, j.started_at,
        j.finished_at, j.deadline_at, j.total, made.*
    FROM (SELECT * FROM jobs WHERE finished_at IS NULL OR finished_at > :since
        ORDER BY id DESC LIMIT :most) j
    CROSS JOIN LATERAL (
        SELECT CAST(coalesce(sum(ok + unchanged + empty), 0) AS bigint) AS done,
            CAST(coalesce(sum(failed), 0) AS bigint) AS failed,
            count(*) FILTER (WHERE c.state = 'leased' AND lease_until > :until) AS in_flight,
            CAST(coalesce(sum(prompt_tokens), 0) AS bigint) AS prompt_tokens,
            CAST(coalesce(sum(completion_tokens), 0) AS bigint) AS completion_tokens,
            CAST(coalesce(sum(money), 0) AS float8) AS money
        FROM chunks c WHERE c.job_id = j.id) made
    ORDER BY j.id DESC
""")

_FAILED_ITEMS = text("""
    SELECT job_id, coalesce(code, 'unknown') AS code, count(*) AS n FROM results
    WHERE job_id = ANY(:job_ids) AND status = 'failed' GROUP BY job_id, code ORDER BY job_id, n DESC
""")
