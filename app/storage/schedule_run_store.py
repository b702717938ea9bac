"""Runs of schedules: planned once a nominal time, launched by whoever holds the lease."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from app.domain.schedules import Earlier, RunState


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run to be written down. One that is skipped says why."""

    schedule_id: int
    nominal_at: datetime
    due_at: datetime
    skipped: str | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """A run whose launch is ours; `attempt` is its fence."""

    schedule_id: int
    nominal_at: datetime
    attempt: int


@dataclass(frozen=True, slots=True)
class Run:
    """A run as people see it; `job_state` None: it has no job, or the job is gone."""

    nominal_at: datetime
    due_at: datetime
    state: RunState
    reason: str | None
    attempt: int
    launched_at: datetime | None
    job_id: int | None
    job_key: str | None
    job_state: str | None


class ScheduleRunStore:
    """Queries on `schedule_runs`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def plan(self, runs: Sequence[PlannedRun]) -> int:
        """Write down runs that are not there yet; how many were new."""
        if not runs:
            return 0
        values = {
            "ids": [run.schedule_id for run in runs],
            "nominals": [run.nominal_at for run in runs],
            "dues": [run.due_at for run in runs],
            "reasons": [run.skipped for run in runs],
        }
        return self._tx.execute(_PLAN, values).rowcount

    def history(self, schedule_id: int, most: int) -> list[Run]:
        """The newest runs first."""
        rows = self._tx.execute(_HISTORY, {"id": schedule_id, "most": most}).mappings()
        return [Run(**{**row, "state": RunState(row["state"])}) for row in rows]

    def waiting(self, now: datetime) -> int:
        """Runs that could be taken now, less those whose launch is under way."""
        return int(self._tx.execute(_WAITING, {"now": now}).scalar_one())

    def take(self, now: datetime, lease_s: float, most: int) -> Taken | None:
        """Lease the launch of the earliest due run; None: there is none, or `most` are under way.

        Locks its row. One that waits for an earlier run of a queueing schedule is passed over.
        """
        values = {"now": now, "lease_s": lease_s, "most": most}
        row = self._tx.execute(_TAKE, values).one_or_none()
        return None if row is None else Taken(row.schedule_id, row.nominal_at, row.attempt)

    def take_this(
        self, schedule_id: int, nominal_at: datetime, now: datetime, lease_s: float
    ) -> Taken | None:
        """Lease the launch of this run; None: somebody else's, or over."""
        values = {"id": schedule_id, "nominal": nominal_at, "now": now, "lease_s": lease_s}
        row = self._tx.execute(_TAKE_THIS, values).one_or_none()
        return None if row is None else Taken(row.schedule_id, row.nominal_at, row.attempt)

    def extend(self, run: Taken, now: datetime, lease_s: float) -> bool:
        """Keep the lease; False: it is lost."""
        values = _of(run) | {"now": now, "lease_s": lease_s}
        return self._tx.execute(_EXTEND, values).rowcount == 1

    def earlier(self, schedule_id: int, nominal_at: datetime) -> list[Earlier]:
        """Earlier runs that are not over: planned, or with an open job. The oldest first."""
        rows = self._tx.execute(_EARLIER, {"id": schedule_id, "nominal": nominal_at}).mappings()
        return [Earlier(**row) for row in rows]

    def launched(self, run: Taken, job_id: int) -> bool:
        """Its job is there; False: the lease was lost, and somebody else says so."""
        return self._settle(run, RunState.LAUNCHED, job_id=job_id)

    def failed(self, run: Taken, reason: str) -> bool:
        """It was tried too often."""
        return self._settle(run, RunState.FAILED, reason=reason)

    def skipped(self, run: Taken, reason: str) -> bool:
        """It is not launched."""
        return self._settle(run, RunState.SKIPPED, reason=reason)

    def overtaken(self, schedule_id: int, nominals: Sequence[datetime], reason: str) -> None:
        """Earlier runs that were not launched yet are not launched any more."""
        values = {"id": schedule_id, "nominals": list(nominals), "reason": reason}
        self._tx.execute(_OVERTAKEN, values)

    def again(self, run: Taken, now: datetime, after_s: float, reason: str) -> bool:
        """Give the lease back; the run is tried again after `after_s`."""
        values = _of(run) | {"now": now, "after_s": after_s, "reason": reason}
        return self._tx.execute(_AGAIN, values).rowcount == 1

    def _settle(
        self, run: Taken, state: RunState, job_id: int | None = None, reason: str | None = None
    ) -> bool:
        values = _of(run) | {"state": state, "job_id": job_id, "reason": reason}
        return self._tx.execute(_SETTLE, values).rowcount == 1


def _of(run: Taken) -> dict[str, Any]:
    return {"id": run.schedule_id, "nominal": run.nominal_at, "attempt": run.attempt}


_PLAN = text("""
    INSERT INTO schedule_runs (schedule_id, nominal_at, due_at, state, reason)
    SELECT id, nominal, due, CASE WHEN reason IS NULL THEN 'planned' ELSE 'skipped' END, reason
    FROM unnest(CAST(:ids AS int[]), CAST(:nominals AS timestamptz[]),
                CAST(:dues AS timestamptz[]), CAST(:reasons AS text[]))
        AS runs (id, nominal, due, reason)
    ON CONFLICT DO NOTHING
""")
_HISTORY = text("""
    SELECT r.nominal_at, r.due_at, r.state, r.reason, r.attempt, r.launched_at, r.job_id,
           j.key AS job_key, j.state AS job_state
    FROM schedule_runs r LEFT JOIN jobs j ON j.id = r.job_id
    WHERE r.schedule_id = :id ORDER BY r.nominal_at DESC LIMIT :most
""")

_IS_OPEN = "j.state IN ('loading','ready','running','paused')"

_TAKEABLE = f"""
    r.state = 'planned' AND r.due_at <= :now AND coalesce(r.lease_until, '-infinity') <= :now
    AND (s.overlap = 'skip' OR NOT EXISTS (
        SELECT FROM schedule_runs e
        WHERE e.schedule_id = r.schedule_id AND e.nominal_at < r.nominal_at
          AND e.state = 'planned' AND (s.overlap = 'queue' OR e.lease_until > :now)))
    AND (s.overlap <> 'queue' OR NOT EXISTS (
        SELECT FROM schedule_runs e JOIN jobs j ON j.id = e.job_id
        WHERE e.schedule_id = r.schedule_id AND e.nominal_at < r.nominal_at AND {_IS_OPEN}))
"""
_UNDER_WAY = "SELECT count(*) FROM schedule_runs WHERE state = 'planned' AND lease_until > :now"
_WAITING = text(f"""
    SELECT count(*) FROM schedule_runs r JOIN schedules s ON s.id = r.schedule_id
    WHERE {_TAKEABLE}
""")
_LEASED = """
    attempt = r.attempt + 1, lease_until = CAST(:now AS timestamptz)
        + make_interval(secs => :lease_s)
"""
_TAKE = text(f"""
    WITH next AS (
        SELECT r.schedule_id, r.nominal_at FROM schedule_runs r
        JOIN schedules s ON s.id = r.schedule_id
        WHERE {_TAKEABLE} AND ({_UNDER_WAY}) < :most
        ORDER BY r.nominal_at LIMIT 1 FOR UPDATE OF r SKIP LOCKED
    )
    UPDATE schedule_runs r SET {_LEASED}
    FROM next WHERE r.schedule_id = next.schedule_id AND r.nominal_at = next.nominal_at
    RETURNING r.schedule_id, r.nominal_at, r.attempt
""")
_TAKE_THIS = text(f"""
    UPDATE schedule_runs r SET {_LEASED}
    WHERE r.schedule_id = :id AND r.nominal_at = :nominal AND r.state = 'planned'
      AND coalesce(r.lease_until, '-infinity') <= :now
    RETURNING r.schedule_id, r.nominal_at, r.attempt
""")
_EARLIER = text(f"""
    SELECT r.nominal_at, r.job_id, j.key AS job_key
    FROM schedule_runs r LEFT JOIN jobs j ON j.id = r.job_id
    WHERE r.schedule_id = :id AND r.nominal_at < :nominal
      AND (r.state = 'planned' OR (r.state = 'launched' AND {_IS_OPEN}))
    ORDER BY r.nominal_at
""")
_OURS = "schedule_id = :id AND nominal_at = :nominal AND attempt = :attempt AND state = 'planned'"
_EXTEND = text(f"""
    UPDATE schedule_runs
    SET lease_until = CAST(:now AS timestamptz) + make_interval(secs => :lease_s) WHERE {_OURS}
""")
_SETTLE = text(f"""
    UPDATE schedule_runs SET state = :state, job_id = :job_id, reason = :reason,
        lease_until = NULL, launched_at = CASE WHEN :state = 'launched' THEN clock_timestamp() END
    WHERE {_OURS}
""")
_AGAIN = text(f"""
    UPDATE schedule_runs SET lease_until = NULL, reason = :reason,
        due_at = CAST(:now AS timestamptz) + make_interval(secs => :after_s)
    WHERE {_OURS}
""")
_OVERTAKEN = text("""
    UPDATE schedule_runs SET state = 'skipped', reason = :reason, lease_until = NULL
    WHERE schedule_id = :id AND nominal_at = ANY(:nominals) AND state = 'planned'
""")
