"""Jobs: insert, load, find, list, change state, prune."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, func, literal, select, text, update
from sqlalchemy.dialects.postgresql import insert

from app.domain.jobs import CLAIMABLE, OPEN, Failover, Job, JobState, NewJob
from app.storage.tables import jobs


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

    def get(self, job_id: int) -> Job | None:
        """The job with this id."""
        row = self._tx.execute(select(jobs).where(jobs.c.id == job_id)).mappings().one_or_none()
        return _job(row) if row else None

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

    def find_key(self, key: str) -> Job | None:
        """The job with exactly this key."""
        row = self._tx.execute(select(jobs).where(jobs.c.key == key)).mappings().one_or_none()
        return _job(row) if row else None

    def ids(self, references: Sequence[str]) -> dict[str, int]:
        """Ids by reference (a key or, failing that, an id) of those jobs that are there."""
        rows = self._tx.execute(_IDS, {"references": list(references)})
        return {row.reference: row.id for row in rows}

    def listed(self, most: int, states: Collection[JobState] = ()) -> list[Job]:
        """The newest jobs first."""
        query = select(jobs).order_by(jobs.c.id.desc()).limit(most)
        if states:
            query = query.where(jobs.c.state.in_(list(states)))
        return [_job(row) for row in self._tx.execute(query).mappings()]

    def all_of(self, job_ids: Sequence[int]) -> list[Job]:
        """Those of these jobs that are there, in no order."""
        query = select(jobs).where(jobs.c.id.in_(list(job_ids)))
        return [_job(row) for row in self._tx.execute(query).mappings()]

    def claimable(self, pool: str, most: int) -> list[Job]:
        """The pool's jobs that could run, oldest first."""
        query = (
            select(jobs)
            .where(jobs.c.pool == pool, jobs.c.state.in_(list(CLAIMABLE)))
            .order_by(jobs.c.id)
            .limit(most)
        )
        return [_job(row) for row in self._tx.execute(query).mappings()]

    def with_webhook(self, job_ids: Sequence[int]) -> list[Job]:
        """Those of these jobs whose end is to be told."""
        query = select(jobs).where(jobs.c.id.in_(list(job_ids)), jobs.c.webhook.is_not(None))
        return [_job(row) for row in self._tx.execute(query).mappings()]

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

    def set_budget(self, job_id: int, budget: float) -> None:
        """The money after which the job pauses."""
        self._tx.execute(update(jobs).where(jobs.c.id == job_id).values(budget=budget))

    def to_prune(self, older_than_s: float) -> int | None:
        """A job that ended so long ago and still has its items; None: there is none. Locks it."""
        found = self._tx.execute(_TO_PRUNE, {"age_s": older_than_s}).scalar_one_or_none()
        return None if found is None else int(found)

    def pruned(self, job_id: int) -> None:
        """Its items and results are gone."""
        self._tx.execute(update(jobs).where(jobs.c.id == job_id).values(pruned_at=func.now()))


_IDS = text("""
    SELECT r.reference, found.id FROM unnest(CAST(:references AS text[])) AS r (reference)
    CROSS JOIN LATERAL (
        SELECT j.id FROM jobs j WHERE j.key = r.reference
            OR j.id = CASE WHEN r.reference ~ '^[0-9]{1,18}$' THEN CAST(r.reference AS bigint) END
        ORDER BY j.key <> r.reference LIMIT 1) AS found
""")

_TO_PRUNE = text("""
    SELECT id FROM jobs
    WHERE pruned_at IS NULL AND state IN ('completed','failed','cancelled')
      AND finished_at < clock_timestamp() - make_interval(secs => :age_s)
    ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
""")


def _job(row: RowMapping) -> Job:
    values: dict[str, Any] = {name: row[name] for name in Job.__dataclass_fields__}
    values["state"] = JobState(row["state"])
    values["request_hash"] = bytes(row["request_hash"])
    values["failover"] = Failover(row["failover"])
    values["after"] = tuple(row["after"])
    values["source"] = None if row["source"] is None else bytes(row["source"])
    return Job(**values)
