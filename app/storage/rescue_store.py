"""Rescue: chunks whose lease ran out are put back, split, or buried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from app.domain.chunks import Seqs
from app.storage.chunk_store import NEXT_NO, lock_numbers


@dataclass(frozen=True, slots=True)
class Lapsed:
    """A lease that ran out, as the reaper sees it."""

    job_id: int
    no: int
    fence: int
    pool: str
    seqs: Seqs
    crashes: int
    attempt: int


class RescueStore:
    """Queries on `chunks` that were leased, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def lapsed(self, worker: str | None = None, most: int = 500) -> list[Lapsed]:
        """Leases that ran out or, with `worker`, all that this worker held. Locks their rows."""
        rows = self._tx.execute(
            _LAPSED if worker is None else _HELD_BY, {"worker": worker, "most": most}
        )
        return [
            Lapsed(
                job_id=row.job_id,
                no=row.no,
                fence=row.fence,
                pool=row.pool,
                seqs=Seqs(
                    row.first_seq, row.last_seq, None if row.seqs is None else tuple(row.seqs)
                ),
                crashes=row.crashes + 1,
                attempt=row.attempt,
            )
            for row in rows
        ]

    def rearm(self, lapsed: Sequence[Lapsed], after_s: float = 0.0) -> None:
        """Put lapsed chunks back to ready, a crash counted; the old fence is dead."""
        self._tx.execute(
            _REARM,
            {
                "jobs": [chunk.job_id for chunk in lapsed],
                "nos": [chunk.no for chunk in lapsed],
                "after_s": after_s,
            },
        )

    def split(self, chunk: Lapsed, left: Seqs, right: Seqs) -> None:
        """Replace a chunk by two halves, each with its crashes counted from nought.

        What it recorded stays counted on it; the halves hold only items without a result.
        """
        lock_numbers(self._tx, chunk.job_id)
        self._tx.execute(_RETIRE, {"job_id": chunk.job_id, "no": chunk.no, "state": "split"})
        for half in (left, right):
            self._tx.execute(
                _HALF,
                {
                    "job_id": chunk.job_id,
                    "no": chunk.no,
                    "first": half.first,
                    "last": half.last,
                    "seqs": None if half.listed is None else list(half.listed),
                    "count": half.count,
                    "attempt": chunk.attempt,
                },
            )

    def bury(self, chunk: Lapsed, failed: int) -> None:
        """The chunk's one item was recorded as failed (`failed` = 1 if it had no result)."""
        self._tx.execute(_RETIRE, {"job_id": chunk.job_id, "no": chunk.no, "state": "dead"})
        self._tx.execute(_BURIED, {"job_id": chunk.job_id, "no": chunk.no, "failed": failed})


_LAPSED_COLUMNS = """
    SELECT job_id, no, fence, pool, first_seq, last_seq, seqs, crashes, attempt FROM chunks
"""
_LAPSED = text(f"""{_LAPSED_COLUMNS}
    WHERE state = 'leased' AND lease_until < clock_timestamp() AND CAST(:worker AS text) IS NULL
    ORDER BY job_id, no LIMIT :most FOR UPDATE SKIP LOCKED
""")
_HELD_BY = text(f"""{_LAPSED_COLUMNS}
    WHERE state = 'leased' AND starts_with(worker, :worker)
    ORDER BY job_id, no LIMIT :most FOR UPDATE SKIP LOCKED
""")

_REARM = text("""
    UPDATE chunks c SET state = 'ready', crashes = crashes + 1, fence = fence + 1,
        lease_until = NULL, yield_requested = false,
        not_before = CASE WHEN CAST(:after_s AS float8) > 0
                     THEN clock_timestamp() + make_interval(secs => :after_s) END
    FROM unnest(CAST(:jobs AS bigint[]), CAST(:nos AS int[])) AS these (job_id, no)
    WHERE c.job_id = these.job_id AND c.no = these.no
""")

_RETIRE = text("""
    UPDATE chunks SET state = :state, fence = fence + 1, lease_until = NULL,
        items = ok + unchanged + empty + failed
    WHERE job_id = :job_id AND no = :no
""")

_HALF = text(f"""
    INSERT INTO chunks (job_id, no, pool, first_seq, last_seq, seqs, items, state, attempt)
    SELECT c.job_id, {NEXT_NO}, c.pool, :first, :last, CAST(:seqs AS bigint[]), :count,
           'ready', :attempt
    FROM chunks c WHERE c.job_id = :job_id AND c.no = :no
""")

_BURIED = text("""
    UPDATE chunks SET failed = failed + :failed, items = items + :failed
    WHERE job_id = :job_id AND no = :no
""")
