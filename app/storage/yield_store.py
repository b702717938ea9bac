"""Yielding: batch calls in flight, and whose chunks are asked to give their places back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from app.domain.resuming import CONTINUING
from app.domain.throttle.yielding import Held


@dataclass(frozen=True, slots=True)
class Calls:
    """Batch calls in flight. `drain_s` is about how long the slowest takes for one item;
    `work_tokens` and `wasted_tokens` are those of the jobs that run now."""

    held: list[Held]
    drain_s: float
    work_tokens: float
    wasted_tokens: float


class YieldStore:
    """Queries on leased `chunks`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def calls(self, pool: str) -> Calls:
        """The pool's batch calls in flight, with what closing each would throw away."""
        rows = self._tx.execute(_CALLS, {"pool": pool, "continuing": list(CONTINUING)}).all()
        totals = self._tx.execute(_WORK, {"pool": pool}).one()
        held = [
            Held(f"{row.job_id}/{row.no}", float(row.age_s), float(row.tokens), row.may_yield)
            for row in rows
        ]
        drain_s = max((float(row.item_s) for row in rows), default=0.0)
        return Calls(held, drain_s, float(totals.done), float(totals.wasted))

    def request_yield(self, chunks: Sequence[tuple[int, int]]) -> None:
        """Ask the holders of these (job_id, no) to give their places back."""
        if chunks:
            jobs, nos = zip(*chunks, strict=True)
            self._tx.execute(_REQUEST_YIELD, {"jobs": list(jobs), "nos": list(nos)})

    def asked_to_yield(self, worker: str) -> list[tuple[int, int, int]]:
        """(job_id, no, fence) of the worker's chunks that are asked to give their place back."""
        rows = self._tx.execute(_ASKED_TO_YIELD, {"worker": worker})
        return [(row.job_id, row.no, row.fence) for row in rows]


# What a call has cost so far is not in the row; half of what the chunk's items cost on average is
# what closing one throws away in expectation. Where the next call goes on, it is the prompt.
_CALLS = text("""
    SELECT c.job_id, c.no, j.may_yield, t.age_s, t.age_s / greatest(c.ok, 1) AS item_s,
        CASE WHEN j.resume_streamed AND e.kind = ANY(:continuing) THEN c.prompt_tokens
             ELSE 0.5 * (c.prompt_tokens + c.completion_tokens) END / greatest(c.ok, 1) AS tokens
    FROM chunks c JOIN jobs j ON j.id = c.job_id LEFT JOIN endpoints e ON e.name = c.endpoint
    CROSS JOIN LATERAL (
        SELECT greatest(0, extract(epoch FROM clock_timestamp() - c.leased_at)) AS age_s) AS t
    WHERE c.state = 'leased' AND c.pool = :pool AND c.lease_until > clock_timestamp()
""")

_WORK = text("""
    SELECT coalesce(sum(c.prompt_tokens + c.completion_tokens), 0) AS done,
           coalesce(sum(c.wasted_tokens), 0) AS wasted
    FROM chunks c JOIN jobs j ON j.id = c.job_id
    WHERE j.pool = :pool AND j.state IN ('ready','running')
""")

_REQUEST_YIELD = text("""
    UPDATE chunks c SET yield_requested = true
    FROM unnest(CAST(:jobs AS bigint[]), CAST(:nos AS int[])) AS these (job_id, no)
    WHERE c.job_id = these.job_id AND c.no = these.no AND c.state = 'leased'
""")

_ASKED_TO_YIELD = text("""
    SELECT job_id, no, fence FROM chunks
    WHERE state = 'leased' AND yield_requested AND worker = :worker
""")
