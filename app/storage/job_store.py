"""Jobs: insert, find, list, change state, and progress as sums over chunks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from math import inf
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
from app.domain.jobs import CLAIMABLE, OPEN, Failover, Job, JobState, NewJob, Progress
from app.domain.sharing import Candidate
from app.domain.windows import Window, is_open
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
                resume_streamed=job.resume_streamed,
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

    def ids(self, references: Sequence[str]) -> dict[str, int]:
        """Ids by reference (a key or, failing that, an id) of those jobs that are there."""
        rows = self._tx.execute(_IDS, {"references": list(references)})
        return {row.reference: row.id for row in rows}

    def find_key(self, key: str) -> Job | None:
        """The job with exactly this key."""
        row = self._tx.execute(select(jobs).where(jobs.c.key == key)).mappings().one_or_none()
        return _job(row) if row else None

    def uncompleted(self, job_ids: Sequence[int]) -> list[str]:
        """Keys of those that have not completed; the id of one that is gone."""
        rows = self._tx.execute(_UNCOMPLETED, {"job_ids": list(job_ids)})
        return [row.key for row in rows]

    def conditional(self, pool: str, most: int) -> list[Job]:
        """The pool's jobs that could run, and come after others or have a window; oldest first."""
        query = (
            select(jobs)
            .where(
                jobs.c.pool == pool,
                jobs.c.state.in_(list(CLAIMABLE)),
                jobs.c.window.is_not(None) | (func.cardinality(jobs.c.after) > 0),
            )
            .order_by(jobs.c.id)
            .limit(most)
        )
        return [_job(row) for row in self._tx.execute(query).mappings()]

    def to_prune(self, older_than_s: float) -> int | None:
        """A job that ended so long ago and still has its items; None: there is none. Locks it."""
        found = self._tx.execute(_TO_PRUNE, {"age_s": older_than_s}).scalar_one_or_none()
        return None if found is None else int(found)

    def pruned(self, job_id: int) -> None:
        """Its items and results are gone."""
        self._tx.execute(update(jobs).where(jobs.c.id == job_id).values(pruned_at=func.now()))

    def with_webhook(self, job_ids: Sequence[int]) -> list[Job]:
        """Those of these jobs whose end is to be told."""
        query = select(jobs).where(jobs.c.id.in_(list(job_ids)), jobs.c.webhook.is_not(None))
        return [_job(row) for row in self._tx.execute(query).mappings()]

    def cancel(self, job_ids: Sequence[int], reason: str) -> list[int]:
        """Cancel those of these jobs that are open; which they were."""
        if not job_ids:
            return []
        rows = self._tx.execute(
            update(jobs)
            .where(jobs.c.id.in_(list(job_ids)), jobs.c.state.in_(list(OPEN)))
            .values(
                state=JobState.CANCELLED,
                reason=reason,
                finished_at=func.coalesce(jobs.c.finished_at, func.now()),
            )
            .returning(jobs.c.id)
        )
        return [row.id for row in rows]

    def pause_in_vain(self) -> list[tuple[int, str]]:
        """Pause each job that comes after one that will not complete: (id, reason) of each."""
        return [(row.id, row.reason) for row in self._tx.execute(_PAUSE_IN_VAIN)]

    def forget_vain(self, job_id: int) -> None:
        """The job waits no more for those that will not complete."""
        self._tx.execute(_FORGET_VAIN, {"job_id": job_id})

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
        """Turn a loading job ready. Where lines were skipped, nobody knows what is missing: then
        it deletes nothing."""
        self._tx.execute(
            update(jobs)
            .where(jobs.c.id == job_id, jobs.c.state == JobState.LOADING)
            .values(
                state=JobState.READY,
                total=total,
                skipped_lines=skipped_lines,
                delete_missing=jobs.c.delete_missing & literal(skipped_lines == 0),
                ready_at=func.now(),
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

    def served(self, job_id: int) -> None:
        """A chunk of it was leased now: it runs, and its turn is over."""
        self._tx.execute(_SERVED, {"job_id": job_id})

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

    def set_budget(self, job_id: int, budget: float) -> None:
        """The money after which the job pauses."""
        self._tx.execute(update(jobs).where(jobs.c.id == job_id).values(budget=budget))

    def candidates(self, pool: str, most: int) -> list[Candidate]:
        """Jobs of the pool with chunks that could be claimed now, each counted up to `most`.

        Without those that come after others or are outside their window.
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

    def due(self, pool: str) -> list[Due]:
        """The pool's jobs with a deadline that may run now, and the pace they have made."""
        rows = self._tx.execute(_DUE, {"pool": pool})
        return [
            Due(row.deadline_at, row.remaining, row.done, row.place_s)
            for row in rows
            if is_open(row.window and Window.from_json(row.window), row.now)
        ]

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


# It comes after jobs that have not all completed.
_BLOCKED = """EXISTS (
    SELECT FROM unnest(jobs.after) AS first (id) LEFT JOIN jobs b ON b.id = first.id
    WHERE b.state IS DISTINCT FROM 'completed')"""
_FREE = text(f"NOT {_BLOCKED}")

_SERVED = text("""
    UPDATE jobs SET state = 'running', served_at = clock_timestamp(),
        started_at = coalesce(started_at, now())
    WHERE id = :job_id AND state IN ('ready','running')
""")

_TO_PRUNE = text("""
    SELECT id FROM jobs
    WHERE pruned_at IS NULL AND state IN ('completed','failed','cancelled')
      AND finished_at < clock_timestamp() - make_interval(secs => :age_s)
    ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
""")

_UNCOMPLETED = text("""
    SELECT coalesce(b.key, CAST(first.id AS text)) AS key
    FROM unnest(CAST(:job_ids AS bigint[])) AS first (id) LEFT JOIN jobs b ON b.id = first.id
    WHERE b.state IS DISTINCT FROM 'completed' ORDER BY first.id
""")

_PAUSE_IN_VAIN = text("""
    UPDATE jobs j SET state = 'paused', reason = format(
        'it comes after job %s, which %s; resume it to run all the same',
        coalesce(vain.key, CAST(vain.id AS text)), coalesce('is ' || vain.state, 'is gone'))
    FROM (
        SELECT DISTINCT ON (w.id) w.id AS waits, first.id, b.key, b.state
        FROM jobs w CROSS JOIN LATERAL unnest(w.after) AS first (id)
        LEFT JOIN jobs b ON b.id = first.id
        WHERE w.state IN ('ready','running') AND w.after <> '{}'
          AND (b.id IS NULL OR b.state IN ('failed','cancelled'))
        ORDER BY w.id, first.id) AS vain
    WHERE j.id = vain.waits RETURNING j.id, j.reason
""")

_FORGET_VAIN = text("""
    UPDATE jobs j SET after = ARRAY(
        SELECT first.id FROM unnest(j.after) AS first (id) JOIN jobs b ON b.id = first.id
        WHERE b.state NOT IN ('failed','cancelled') ORDER BY 1)
    WHERE j.id = :job_id AND j.after <> '{}'
""")

_IDS = text("""
    SELECT r.reference, found.id FROM unnest(CAST(:references AS text[])) AS r (reference)
    CROSS JOIN LATERAL (
        SELECT j.id FROM jobs j WHERE j.key = r.reference
            OR j.id = CASE WHEN r.reference ~ '^[0-9]{1,18}$' THEN CAST(r.reference AS bigint) END
        ORDER BY j.key <> r.reference LIMIT 1) AS found
""")

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

_DUE = text(f"""
    SELECT j.deadline_at, s.done, j.total - s.ended AS remaining, s.place_s, j.window,
        clock_timestamp() AS now
    FROM jobs j CROSS JOIN LATERAL (
        SELECT coalesce(sum(c.ok), 0) AS done,
            coalesce(sum(c.ok + c.unchanged + c.empty + c.failed), 0) AS ended,
            CAST(coalesce(sum(c.held_s + CASE WHEN c.state = 'leased' THEN
                extract(epoch FROM clock_timestamp() - c.leased_at) ELSE 0 END), 0) AS float8)
                AS place_s
        FROM chunks c WHERE c.job_id = j.id) AS s
    WHERE j.pool = :pool AND j.state IN ('ready','running') AND j.deadline_at IS NOT NULL
      AND NOT {_BLOCKED.replace("jobs.", "j.")}
""")

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
           ready.n AS ready, j.tenant, j.window, clock_timestamp() AS now,
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
      AND NOT {_BLOCKED.replace("jobs.", "j.")}
""")


def _waited_s(since: datetime | None, now: datetime) -> float:
    return inf if since is None else max(0.0, (now - since).total_seconds())


def _job(row: RowMapping) -> Job:
    values: dict[str, Any] = {name: row[name] for name in Job.__dataclass_fields__}
    values["state"] = JobState(row["state"])
    values["request_hash"] = bytes(row["request_hash"])
    values["failover"] = Failover(row["failover"])
    values["after"] = tuple(row["after"])
    values["source"] = None if row["source"] is None else bytes(row["source"])
    return Job(**values)
