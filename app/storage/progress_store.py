"""How far jobs have come: sums over their chunks, and the end of those that have none open."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, exists, func, text, update

from app.domain.chunks import ChunkState
from app.domain.jobs import CLAIMABLE, JobState, Progress
from app.storage.after_store import BLOCKED
from app.storage.tables import chunks, jobs

_OPEN_CHUNKS = (ChunkState.READY, ChunkState.LEASED)


class ProgressStore:
    """Queries on `jobs` and their `chunks`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def progress(self, job_ids: Sequence[int]) -> dict[int, Progress]:
        """Sums over the chunk rows of these jobs, in one query."""
        if not job_ids:
            return {}
        rows = self._tx.execute(_PROGRESS, {"job_ids": list(job_ids)}).mappings()
        counts = [name for name in Progress.__dataclass_fields__ if name != "money"]
        return {
            row["id"]: Progress(**{name: int(row[name]) for name in counts}, money=row["money"])
            for row in rows
        }

    def spent(self, job_id: int) -> tuple[float, bool]:
        """The money of a job's calls so far, and whether a chunk of it is ready."""
        row = self._tx.execute(_SPENT, {"job_id": job_id}).one()
        return float(row.money), bool(row.is_ready)

    def finish_done(self) -> list[tuple[int, str]]:
        """Complete every job with no open chunk: (id, kind) of each. The level-triggered sweep."""
        c = chunks.c
        open_chunk = exists().where(c.job_id == jobs.c.id, c.state.in_(_OPEN_CHUNKS))
        rows = self._tx.execute(
            update(jobs)
            .where(jobs.c.state.in_(list(CLAIMABLE)), ~open_chunk, _FREE)
            .values(
                state=JobState.COMPLETED,
                finished_at=func.now(),
                started_at=func.coalesce(jobs.c.started_at, func.now()),
            )
            .returning(jobs.c.id, jobs.c.kind)
        )
        return [(row.id, row.kind) for row in rows]


_FREE = text(f"NOT {BLOCKED}")

_PROGRESS = text("""
    SELECT j.id, j.total, coalesce(sum(c.ok + c.unchanged + c.empty), 0) AS done,
        coalesce(sum(c.unchanged), 0) AS unchanged, coalesce(sum(c.empty), 0) AS empty,
        coalesce(sum(c.failed), 0) AS failed,
        coalesce(sum(c.items - (c.ok + c.unchanged + c.empty + c.failed)) FILTER (
            WHERE c.attempt > 0 AND c.state IN ('ready','leased')), 0) AS retrying,
        count(*) FILTER (WHERE c.state = 'leased' AND c.lease_until > now()) AS in_flight,
        count(*) FILTER (WHERE c.state IN ('ready','leased')) AS chunks_open,
        coalesce(sum(c.prompt_tokens), 0) AS prompt_tokens,
        coalesce(sum(c.completion_tokens), 0) AS completion_tokens,
        coalesce(sum(c.wasted_tokens), 0) AS wasted_tokens, coalesce(sum(c.money), 0) AS money
    FROM jobs j LEFT JOIN chunks c ON c.job_id = j.id
    WHERE j.id = ANY(:job_ids) GROUP BY j.id
""")

_SPENT = text("""
    SELECT coalesce(sum(money), 0) AS money, coalesce(bool_or(state = 'ready'), false) AS is_ready
    FROM chunks WHERE job_id = :job_id
""")
