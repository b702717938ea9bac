"""Interactive requests: a row each, from arrival to end, and the reading made from them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.requests import NewRequest, RequestState
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

    def arrive(
        self,
        requests: Sequence[NewRequest],
        worker: str,
        lease_s: float,
        rides_on: UUID | None = None,
    ) -> list[UUID]:
        """Record the requests as queued; those of them that were cancelled before they came.

        `ahead` is how many of the pool were in flight before. Those with the same `rides_on` are to
        go in one call. A message that the broker delivers again finds its row and takes it over.
        """
        if not requests:
            return []
        rows = self._tx.execute(
            _ARRIVE,
            {
                **columns_of(requests),
                "pool": requests[0].pool,
                "worker": worker,
                "lease_s": lease_s,
                "rides_on": rides_on,
            },
        )
        return [row.id for row in rows if row.cancel_requested]

    def ahead_of(self, request_id: UUID, pool: str) -> dict[str, int]:
        """Calls that wait and come before this request's, by model: higher priority, then older.

        Exact for as long as the pool's limit row is locked.
        """
        rows = self._tx.execute(_AHEAD_OF, {"id": request_id, "pool": pool})
        return {row.model: row.n for row in rows}

    def start(
        self,
        ids: Sequence[UUID],
        endpoint: str,
        role: str | None = None,
        model: str | None = None,
    ) -> None:
        """The requests take their place at `endpoint`, which is asked for `model`."""
        self._tx.execute(
            _START, {"ids": list(ids), "endpoint": endpoint, "role": role, "model": model}
        )

    def wait_again(self, ids: Sequence[UUID]) -> None:
        """The call failed; its place is free, and the requests wait for another."""
        self._tx.execute(_WAIT_AGAIN, {"ids": list(ids)})

    def detour(self, pool: str, endpoint: str, seconds: float, code: str) -> None:
        """A call failed at `endpoint` with `code`, now, and another endpoint is asked."""
        values = {"pool": pool, "endpoint": endpoint, "seconds": seconds, "code": code}
        self._tx.execute(_DETOUR, values)

    def first_token(self, ids: Sequence[UUID]) -> None:
        """The first token of their answer came, now."""
        self._tx.execute(_FIRST_TOKEN, {"ids": list(ids)})

    def finish(
        self,
        request_id: UUID,
        state: RequestState,
        error_code: str | None = None,
        prompt_tokens: int | None = None,
        completion_tokens: int | None = None,
    ) -> None:
        """The request ended, now; its place is free."""
        self.finish_all([request_id], state, error_code, [prompt_tokens], [completion_tokens])

    def finish_all(
        self,
        ids: Sequence[UUID],
        state: RequestState,
        error_code: str | None = None,
        prompt_tokens: Sequence[int | None] | None = None,
        completion_tokens: Sequence[int | None] | None = None,
        money: Sequence[float | None] | None = None,
        *,
        rough: bool = False,
    ) -> None:
        """The requests of one call ended, now, each with its share of the tokens and the money.

        `rough`: the call's tokens are a guess.
        """
        none = [None] * len(ids)
        self._tx.execute(
            _FINISH,
            {
                "ids": list(ids),
                "state": state,
                "error_code": error_code,
                "prompt_tokens": list(prompt_tokens or none),
                "completion_tokens": list(completion_tokens or none),
                "money": list(money or none),
                "rough": rough,
            },
        )

    def end_ride(self, pool: str, rides_on: UUID) -> None:
        """End what is still open of a shared call that is over: nobody waits for it."""
        self._tx.execute(_END_RIDE, {"pool": pool, "rides_on": rides_on})

    def cancel(self, request_id: UUID) -> str | None:
        """Nobody waits for the request any more; its state before, None: it has not come yet.

        One that comes later is dropped on arrival.
        """
        return self._tx.execute(_CANCEL, {"id": request_id}).scalar_one_or_none()

    def cancel_queued(self, request_id: UUID) -> str | None:
        """The same of a request that waits for a place; None: it does not."""
        return self._tx.execute(_CANCEL_QUEUED, {"id": request_id}).scalar_one_or_none()

    def cancelled(self, ids: Sequence[UUID]) -> list[UUID]:
        """Those of `ids` that were cancelled."""
        return list(self._tx.execute(_CANCELLED, {"ids": list(ids)}).scalars())

    def extend(self, ids: Sequence[UUID], lease_s: float) -> None:
        """Keep the places of these requests for another `lease_s`."""
        if ids:
            self._tx.execute(_EXTEND, {"ids": list(ids), "lease_s": lease_s})

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


_ARRIVE = text("""
    INSERT INTO interactive_requests AS mine (id, pool, task_type, model, user_id, priority, state,
        max_tokens, submitted_at, deadline_at, worker, lease_until, rides_on, ahead)
    SELECT new.id, :pool, new.task_type, new.model, new.user_id, new.priority, 'queued',
        new.max_tokens, new.submitted_at, new.deadline_at, :worker,
        clock_timestamp() + make_interval(secs => :lease_s), :rides_on,
        (SELECT count(*) FROM interactive_requests
         WHERE state IN ('queued','running') AND pool = :pool)
    FROM unnest(CAST(:ids AS uuid[]), CAST(:task_types AS text[]), CAST(:models AS text[]),
        CAST(:users AS text[]), CAST(:priorities AS int[]), CAST(:max_tokens AS int[]),
        CAST(:submitted AS timestamptz[]), CAST(:deadlines AS timestamptz[]))
        AS new (id, task_type, model, user_id, priority, max_tokens, submitted_at, deadline_at)
    ON CONFLICT (id) DO UPDATE SET pool = excluded.pool, task_type = excluded.task_type,
        model = excluded.model, user_id = excluded.user_id, priority = excluded.priority,
        max_tokens = excluded.max_tokens, submitted_at = excluded.submitted_at,
        deadline_at = excluded.deadline_at, state = 'queued', worker = excluded.worker,
        endpoint = NULL, role = NULL, answered_model = NULL, rides_on = excluded.rides_on,
        lease_until = excluded.lease_until, started_at = NULL, first_token_at = NULL,
        finished_at = NULL, error_code = NULL
    RETURNING id, cancel_requested
""")

# Requests that share a call are one: they need one place.
_AHEAD_OF = text("""
    SELECT other.model, count(DISTINCT coalesce(other.rides_on, other.id)) AS n
    FROM interactive_requests other
    JOIN interactive_requests mine ON mine.id = :id
    WHERE other.state = 'queued' AND other.pool = :pool
      AND other.lease_until > clock_timestamp()
      AND coalesce(other.rides_on, other.id) <> coalesce(mine.rides_on, mine.id)
      AND (-other.priority, other.submitted_at, other.id)
        < (-mine.priority, mine.submitted_at, mine.id)
    GROUP BY other.model
""")

_START = text("""
    UPDATE interactive_requests SET state = 'running', endpoint = :endpoint, role = :role,
        answered_model = :model, started_at = clock_timestamp()
    WHERE id = ANY(:ids)
""")

_WAIT_AGAIN = text("""
    UPDATE interactive_requests SET state = 'queued', started_at = NULL, first_token_at = NULL
    WHERE id = ANY(:ids) AND state = 'running'
""")

_DETOUR = text("""
    INSERT INTO detours (pool, endpoint, ended_at, seconds, error_code)
    VALUES (:pool, :endpoint, clock_timestamp(), :seconds, :code)
""")

_FIRST_TOKEN = text("""
    UPDATE interactive_requests SET first_token_at = clock_timestamp()
    WHERE id = ANY(:ids) AND first_token_at IS NULL
""")

_FINISH = text("""
    UPDATE interactive_requests SET state = :state, finished_at = clock_timestamp(),
        error_code = :error_code, prompt_tokens = ended.prompt_tokens,
        completion_tokens = ended.completion_tokens, money = ended.money, rough = :rough,
        lease_until = NULL
    FROM unnest(CAST(:ids AS uuid[]), CAST(:prompt_tokens AS int[]),
        CAST(:completion_tokens AS int[]), CAST(:money AS float8[]))
        AS ended (id, prompt_tokens, completion_tokens, money)
    WHERE interactive_requests.id = ended.id
""")

_END_RIDE = text("""
    UPDATE interactive_requests SET state = CASE state WHEN 'running' THEN 'failed'
            ELSE 'dropped' END,
        finished_at = clock_timestamp(), error_code = 'abandoned', lease_until = NULL
    WHERE pool = :pool AND state IN ('queued','running') AND rides_on = :rides_on
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

_CANCELLED = text("""
    SELECT id FROM interactive_requests WHERE id = ANY(:ids) AND cancel_requested
""")

_EXTEND = text("""
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
