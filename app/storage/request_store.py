"""Interactive requests: a row each, from arrival to end, and the reading made from them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.requests import NewRequest
from app.domain.throttle.readings import Gauges, Reading
from app.domain.throttle.samples import OVERLOAD_CODES
from app.domain.throttle.values import PolicySettings
from app.storage.reading_sql import READING


def columns_of(requests: Sequence[NewRequest]) -> dict[str, list[Any]]:
    """What requests say of themselves but for their pools, as arrays for `unnest`."""
    return {
        "ids": [one.id for one in requests],
        "task_types": [one.task_type for one in requests],
        "models": [one.model for one in requests],
        "users": [one.user_id for one in requests],
        "priorities": [one.priority for one in requests],
        "max_tokens": [one.max_tokens for one in requests],
        "submitted": [one.submitted_at for one in requests],
        "deadlines": [one.deadline_at for one in requests],
    }


class RequestStore:
    """Queries on `interactive_requests`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def wait_again(self, ids: Sequence[UUID]) -> None:
        """The call failed; its place is free, and the requests wait for another."""
        self._tx.execute(_WAIT_AGAIN, {"ids": list(ids)})

    def detour(self, pool: str, endpoint: str, seconds: float, code: str) -> None:
        """A call failed at `endpoint` with `code`, now, and another endpoint is asked."""
        values = {"pool": pool, "endpoint": endpoint, "seconds": seconds, "code": code}
        self._tx.execute(_DETOUR, values)

    def cancel(self, request_id: UUID) -> str | None:
        """Nobody waits for the request any more; its state before, None: it has not come yet.

        One that comes later is dropped on arrival.
        """
        return self._tx.execute(_CANCEL, {"id": request_id}).scalar_one_or_none()

    def cancel_queued(self, request_id: UUID) -> str | None:
        """The same of a request that waits for a place; None: it does not."""
        return self._tx.execute(_CANCEL_QUEUED, {"id": request_id}).scalar_one_or_none()

    def end_lapsed(self, worker: str | None = None) -> int:
        """End requests whose worker is gone (their lease ran out, or it was `worker`)."""
        return self._tx.execute(_END_LAPSED, {"worker": worker}).rowcount

    def reading(
        self, pool: str, policy: PolicySettings, now: datetime, gauges: Gauges | None = None
    ) -> Reading:
        """What the last window says, in one statement; `samples.summarise` is its definition."""
        row = (
            self._tx.execute(
                READING,
                {
                    "pool": pool,
                    "now": now,
                    "window_s": policy.window_s,
                    "target_ms": policy.target_p95_ms,
                    "first_ms": policy.first_token_target_ms,
                    "token_ms": policy.per_token_target_ms,
                    "short": policy.short_output_tokens,
                    "people": policy.people_capacity,
                    "answered_at": policy.answered_at,
                    "overload": sorted(OVERLOAD_CODES),
                },
            )
            .mappings()
            .one()
        )
        values = dict(row)
        window_s = policy.window_s
        arrivals, completions = values.pop("arrivals"), values.pop("completions")
        peak = max(values.pop("moved_peak"), values["interactive_in_flight"])
        batch_tokens = values.pop("batch_tokens")
        return Reading(
            computed_at=now,
            window_s=window_s,
            arrivals_per_s=arrivals / window_s,
            completions_per_s=completions / window_s,
            interactive_recent_peak=peak,
            batch_per_s=None if batch_tokens is None else batch_tokens / window_s,
            gauges=gauges,
            **values,
        )

    def prune(self, older_than_s: float, most: int) -> int:
        """Delete at most `most` old rows of each table; how many of the one with most."""
        given = {"age_s": older_than_s, "most": most}
        return max(self._tx.execute(one, given).rowcount for one in (_PRUNE, _PRUNE_DETOURS))


_WAIT_AGAIN = text("""
    UPDATE interactive_requests SET state = 'queued', started_at = NULL, first_token_at = NULL
    WHERE id = ANY(:ids) AND state = 'running'
""")

_DETOUR = text("""
    INSERT INTO detours (pool, endpoint, ended_at, seconds, error_code)
    VALUES (:pool, :endpoint, clock_timestamp(), :seconds, :code)
""")

# A row that stands for a message which has not come: what it is about is filled in when it comes.
_CANCEL = text("""
    WITH known AS (SELECT state FROM interactive_requests WHERE id = :id),
    told AS (
        INSERT INTO interactive_requests (id, pool, task_type, model, state, submitted_at,
            finished_at, error_code, cancel_requested)
        VALUES (:id, '', '', '', 'dropped', clock_timestamp(), clock_timestamp(), 'abandoned',
            true)
        ON CONFLICT (id) DO UPDATE SET cancel_requested = true
    )
    SELECT state FROM known
""")

_CANCEL_QUEUED = text("""
    UPDATE interactive_requests SET cancel_requested = true
    WHERE id = :id AND state = 'queued' RETURNING state
""")

CANCELLED = text("""
    SELECT id FROM interactive_requests WHERE id = ANY(:ids) AND cancel_requested
""")

EXTEND = text("""
    UPDATE interactive_requests
    SET lease_until = clock_timestamp() + make_interval(secs => :lease_s)
    WHERE id = ANY(:ids) AND state IN ('queued','running')
""")

_END_LAPSED = text("""
    UPDATE interactive_requests SET state = 'failed', error_code = 'worker_lost',
        finished_at = clock_timestamp(), lease_until = NULL
    WHERE state IN ('queued','running') AND CASE WHEN CAST(:worker AS text) IS NULL
        THEN lease_until < clock_timestamp() ELSE starts_with(worker, :worker) END
""")

_PRUNE_DETOURS = text("""
    DELETE FROM detours WHERE id IN (
        SELECT id FROM detours WHERE ended_at < clock_timestamp() - make_interval(secs => :age_s)
        ORDER BY id LIMIT :most)
""")

_PRUNE = text("""
    DELETE FROM interactive_requests WHERE id IN (
        SELECT id FROM interactive_requests
        WHERE submitted_at < clock_timestamp() - make_interval(secs => :age_s)
          AND state NOT IN ('queued','running')
        ORDER BY pool, submitted_at LIMIT :most FOR UPDATE SKIP LOCKED)
""")
