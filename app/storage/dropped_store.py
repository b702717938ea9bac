"""Interactive requests that ended before a worker began them: a row each, so that they count."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

from app.domain.requests import Unbegun
from app.storage.request_store import columns_of


class DroppedStore:
    """Queries on `interactive_requests`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def record(self, dropped: Sequence[Unbegun]) -> None:
        """Rows that say when the requests ended, and why. One that has a row keeps it: its message
        was delivered before."""
        if not dropped:
            return
        requests = [one.request for one in dropped]
        self._tx.execute(
            _RECORD,
            {
                **columns_of(requests),
                "pools": [one.pool for one in requests],
                "ended": [one.ended_at for one in dropped],
                "codes": [one.code for one in dropped],
            },
        )


# Who is in flight is counted once a pool: a whole backlog of expired messages may come together.
_RECORD = text("""
    WITH flying AS (
        SELECT pool, count(*) AS n FROM interactive_requests
        WHERE state IN ('queued','running') AND pool = ANY(CAST(:pools AS text[])) GROUP BY pool
    )
    INSERT INTO interactive_requests (id, pool, task_type, model, user_id, priority, state,
        max_tokens, submitted_at, deadline_at, finished_at, error_code, ahead)
    SELECT new.id, new.pool, new.task_type, new.model, new.user_id, new.priority, 'dropped',
        new.max_tokens, new.submitted_at, new.deadline_at,
        greatest(new.submitted_at, least(new.ended_at, clock_timestamp())), new.error_code,
        coalesce(flying.n, 0)
    FROM unnest(CAST(:ids AS uuid[]), CAST(:pools AS text[]), CAST(:task_types AS text[]),
        CAST(:models AS text[]), CAST(:users AS text[]), CAST(:priorities AS int[]),
        CAST(:max_tokens AS int[]), CAST(:submitted AS timestamptz[]),
        CAST(:deadlines AS timestamptz[]), CAST(:ended AS timestamptz[]),
        CAST(:codes AS text[]))
        AS new (id, pool, task_type, model, user_id, priority, max_tokens, submitted_at,
            deadline_at, ended_at, error_code)
    LEFT JOIN flying ON flying.pool = new.pool
    ON CONFLICT (id) DO NOTHING
""")
