"""Jobs that come after others: what they still wait for, and those that wait in vain."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

BLOCKED = """EXISTS (
    SELECT FROM unnest(jobs.after) AS first (id) LEFT JOIN jobs b ON b.id = first.id
    WHERE b.state IS DISTINCT FROM 'completed')"""
"""Of a row of `jobs`: it comes after jobs that have not all completed."""


class AfterStore:
    """Queries on `jobs.after`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def uncompleted(self, job_ids: Sequence[int]) -> list[str]:
        """Keys of those that have not completed; the id of one that is gone."""
        rows = self._tx.execute(_UNCOMPLETED, {"job_ids": list(job_ids)})
        return [row.key for row in rows]

    def pause_in_vain(self) -> list[tuple[int, str]]:
        """Pause each job that comes after one that will not complete: (id, reason) of each."""
        return [(row.id, row.reason) for row in self._tx.execute(_PAUSE_IN_VAIN)]

    def forget_vain(self, job_id: int) -> None:
        """The job waits no more for those that will not complete."""
        self._tx.execute(_FORGET_VAIN, {"job_id": job_id})


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
