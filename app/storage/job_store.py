"""Jobs: insert, find, list, change state, and progress as sums over chunks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import (
    Connection,
    RowMapping,
    exists,
    func,
    literal,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from app.domain.chunks import ChunkState
from app.domain.deadlines import Due
from app.domain.jobs import CLAIMABLE, Failover, Job, JobState, NewJob, Progress
from app.domain.sharing import Candidate
from app.storage.tables import chunks, jobs

_OPEN_CHUNKS = (ChunkState.READY, ChunkState.LEASED)


class JobStore:
    """Queries on `jobs`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def insert(self, job: NewJob) -> int | None:
        """The new job's id, in state loading; None when the key is taken.

        Waits for another insert of the same key that is not committed yet.
        """
        statement = (
            insert(jobs)
            .values(
                kind=job.kind,
                name=job.name,
                key=job.key,
                request_hash=job.request_hash,
                params=dict(job.params),
                state=JobState.LOADING,
                priority=job.priority,
                weight=job.weight,
                max_in_flight=job.max_in_flight,
                may_yield=job.may_yield,
                deadline_at=job.deadline_at,
                tenant=job.tenant,
                after=list(job.after),
                window=job.window and dict(job.window),
                failover=job.failover,
                budget=job.budget,
                source=job.source,
                delete_missing=job.delete_missing,
                webhook=job.webhook and dict(job.webhook),
                pool=job.pool,
                model=job.model,
            )
            .on_conflict_do_nothing(index_elements=[jobs.c.key])
            .returning(jobs.c.id)
        )
        return self._tx.execute(statement).scalar_one_or_none()

    def try_load_lock(self, job_id: int) -> bool:
        """Whether this transaction may load the job: held until it ends, gone with its process."""
        return bool(
            self._tx.execute(
                text("SELECT pg_try_advisory_xact_lock(hashtextextended('giveway.load', :id))"),
                {"id": job_id},
            ).scalar_one()
        )

    def find(self, reference: str) -> Job | None:
        """The job with this key or, failing that, this id."""
        rows = self._tx.execute(
            select(jobs).where(
                (jobs.c.key == reference)
                | (
                    (jobs.c.id == int(reference))
                    if reference.isascii() and reference.isdigit() and len(reference) < 19
                    else literal(False)
                )
            )
        ).mappings()
        found = [_job(row) for row in rows]
        return next((job for job in found if job.key == reference), found[0] if found else None)

    def get(self, job_id: int) -> Job | None:
        """The job with this id."""
        row = self._tx.execute(select(jobs).where(jobs.c.id == job_id)).mappings().one_or_none()
        return _job(row) if row else None

    def listed(self, most: int, states: Collection[JobState] = ()) -> list[Job]:
        """The newest jobs first."""
        query = select(jobs).order_by(jobs.c.id.desc()).limit(most)
        if states:
            query = query.where(jobs.c.state.in_(list(states)))
        return [_job(row) for row in self._tx.execute(query).mappings()]

    def forget_loading(self, job_id: int) -> None:
        """Remove a job that is still loading, unless somebody else is loading it."""
        if self.try_load_lock(job_id):
            self._tx.execute(
                jobs.delete().where(jobs.c.id == job_id, jobs.c.state == JobState.LOADING)
            )

    def loaded(self, job_id: int, total: int, skipped_lines: int) -> None:
        """Turn a loading job ready."""
        self._tx.execute(
            update(jobs)
            .where(jobs.c.id == job_id, jobs.c.state == JobState.LOADING)
            .values(
                state=JobState.READY, total=total, skipped_lines=skipped_lines, ready_at=func.now()
            )
        )

    def move(
        self, job_id: int, allowed: Collection[JobState], to: JobState, reason: str | None = None
    ) -> bool:
        """Change the state where it is one of `allowed`; False: it is not. Locks the row."""
        final = to in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)
        moved = self._tx.execute(
            update(jobs)
            .where(jobs.c.id == job_id, jobs.c.state.in_(list(allowed)))
            .values(
                state=to,
                reason=reason,
                finished_at=func.coalesce(jobs.c.finished_at, func.now()) if final else None,
            )
        )
        return moved.rowcount == 1

    def started(self, job_id: int) -> None:
        """Mark a ready job running, once."""
        self._tx.execute(
            update(jobs)
            .where(jobs.c.id == job_id, jobs.c.state == JobState.READY)
            .values(state=JobState.RUNNING, started_at=func.coalesce(jobs.c.started_at, func.now()))
        )

    def progress(self, job_ids: Sequence[int]) -> dict[int, Progress]:
        """Sums over the chunk rows of these jobs, in one query."""
        if not job_ids:
            return {}
        rows = self._tx.execute(_PROGRESS, {"job_ids": list(job_ids)}).mappings()
        names = Progress.__dataclass_fields__
        return {row["id"]: Progress(**{name: int(row[name]) for name in names}) for row in rows}

    def candidates(self, pool: str, most: int) -> list[Candidate]:
        """Jobs of the pool with chunks that could be claimed now, each counted up to `most`."""
        rows = self._tx.execute(_CANDIDATES, {"pool": pool, "most": most}).mappings()
        return [Candidate(**row) for row in rows]

    def in_flight(self, job_id: int, pool: str) -> int:
        """Live leases of the job; reads the leased chunks of its pool, not all of the job's."""
        return int(self._tx.execute(_IN_FLIGHT, {"job_id": job_id, "pool": pool}).scalar_one())

    def due(self, pool: str) -> list[Due]:
        """The pool's unfinished jobs with a deadline, and the pace they have made."""
        return [Due(**row) for row in self._tx.execute(_DUE, {"pool": pool}).mappings()]

    def finish_done(self) -> list[tuple[int, str]]:
        """Complete every job with no open chunk: (id, kind) of each. The level-triggered sweep."""
        c = chunks.c
        open_chunk = exists().where(c.job_id == jobs.c.id, c.state.in_(_OPEN_CHUNKS))
        rows = self._tx.execute(
            update(jobs)
            .where(jobs.c.state.in_(list(CLAIMABLE)), ~open_chunk)
            .values(
                state=JobState.COMPLETED,
                finished_at=func.now(),
                started_at=func.coalesce(jobs.c.started_at, func.now()),
            )
            .returning(jobs.c.id, jobs.c.kind)
        )
        return [(row.id, row.kind) for row in rows]


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
        coalesce(sum(c.wasted_tokens), 0) AS wasted_tokens
    FROM jobs j LEFT JOIN chunks c ON c.job_id = j.id
    WHERE j.id = ANY(:job_ids) GROUP BY j.id
""")

_IN_FLIGHT = text("""
    SELECT count(*) FROM chunks
    WHERE state = 'leased' AND pool = :pool AND job_id = :job_id AND lease_until > clock_timestamp()
""")

_DUE = text("""
    SELECT j.deadline_at, s.done, j.total - s.ended AS remaining, s.place_s
    FROM jobs j CROSS JOIN LATERAL (
        SELECT coalesce(sum(c.ok), 0) AS done,
            coalesce(sum(c.ok + c.unchanged + c.empty + c.failed), 0) AS ended,
            CAST(coalesce(sum(c.held_s + CASE WHEN c.state = 'leased' THEN
                extract(epoch FROM clock_timestamp() - c.leased_at) ELSE 0 END), 0) AS float8)
                AS place_s
        FROM chunks c WHERE c.job_id = j.id) AS s
    WHERE j.pool = :pool AND j.state IN ('ready','running') AND j.deadline_at IS NOT NULL
""")

_CANDIDATES = text("""
    SELECT j.id AS job_id, j.kind, j.priority, j.weight, j.max_in_flight, j.deadline_at,
           ready.n AS ready, flying.n AS in_flight
    FROM jobs j
    CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM (
            SELECT FROM chunks c WHERE c.job_id = j.id AND c.state = 'ready'
              AND coalesce(c.not_before, now()) <= now() LIMIT :most) AS counted
    ) AS ready
    CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM chunks c
        WHERE c.state = 'leased' AND c.pool = :pool AND c.job_id = j.id AND c.lease_until > now()
    ) AS flying
    WHERE j.pool = :pool AND j.state IN ('ready','running') AND ready.n > 0
""")


def _job(row: RowMapping) -> Job:
    values: dict[str, Any] = {name: row[name] for name in Job.__dataclass_fields__}
    values["state"] = JobState(row["state"])
    values["request_hash"] = bytes(row["request_hash"])
    values["failover"] = Failover(row["failover"])
    values["after"] = tuple(row["after"])
    values["source"] = None if row["source"] is None else bytes(row["source"])
    return Job(**values)
