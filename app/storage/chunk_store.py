"""Chunks of a job: cut, numbered, made again of what failed, listed."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

from app.domain.chunks import Chunk, ChunkState

NEXT_NO = "(SELECT max(n.no) + 1 FROM chunks n WHERE n.job_id = :job_id)"
"""The number of a job's next chunk, to be asked for after `lock_numbers`."""


def lock_numbers(tx: Connection, job_id: int) -> None:
    """Until the transaction ends nobody else numbers a new chunk of this job. Locks its row."""
    tx.execute(_LOCK_JOB, {"job_id": job_id})


class ChunkStore:
    """Queries on `chunks`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def cut(self, job_id: int, pool: str, total: int, size: int) -> None:
        """Cut seq 1 to `total` into chunks of `size`, in one statement."""
        self._tx.execute(_CUT, {"job_id": job_id, "pool": pool, "total": total, "size": size})

    def reopen_failed(self, job_id: int, codes: Sequence[str] | None) -> int:
        """Put failed items, and done ones with a code (all, or those with `codes`), into a new
        chunk; how many.

        Their results go, and the counts with them, in the caller's transaction.
        """
        lock_numbers(self._tx, job_id)
        rows = self._tx.execute(
            _FORGET_FAILED, {"job_id": job_id, "codes": None if codes is None else list(codes)}
        ).all()
        if not rows:
            return 0
        seqs = sorted(row.seq for row in rows)
        taken = {"nos": [row.chunk_no for row in rows], "done": [row.done for row in rows]}
        self._tx.execute(_TAKE_BACK, {"job_id": job_id} | taken)
        values = {"seqs": seqs, "first": seqs[0], "last": seqs[-1], "count": len(seqs)}
        self._tx.execute(_AGAIN, {"job_id": job_id} | values)
        return len(seqs)

    def listed(self, job_id: int, most: int, state: ChunkState | None = None) -> list[Chunk]:
        """Chunks of a job as people see them."""
        rows = self._tx.execute(
            text(
                "SELECT no, state, items, attempt, crashes, worker, endpoint, not_before,"
                " ok + unchanged + empty AS ok, failed, error_code FROM chunks"
                " WHERE job_id = :job_id AND (CAST(:state AS text) IS NULL OR state = :state)"
                " ORDER BY no LIMIT :most"
            ),
            {"job_id": job_id, "most": most, "state": state},
        ).mappings()
        return [Chunk(**{**row, "state": ChunkState(row["state"])}) for row in rows]


_LOCK_JOB = text("SELECT id FROM jobs WHERE id = :job_id FOR NO KEY UPDATE")

_CUT = text("""
    INSERT INTO chunks (job_id, no, pool, first_seq, last_seq, items, state)
    SELECT :job_id, n + 1, :pool, n * :size + 1, least((n + 1) * :size, :total),
           least((n + 1) * :size, :total) - n * :size, 'ready'
    FROM generate_series(0, (CAST(:total AS bigint) - 1) / :size) AS n
""")

_FORGET_FAILED = text("""
    DELETE FROM results WHERE job_id = :job_id
      AND (status = 'failed' OR (status = 'done' AND code IS NOT NULL))
      AND (CAST(:codes AS text[]) IS NULL OR code = ANY(:codes))
    RETURNING seq, chunk_no, status = 'done' AS done
""")

_TAKE_BACK = text("""
    UPDATE chunks c SET failed = failed - (again.n - again.done), ok = ok - again.done,
        items = items - again.n
    FROM (SELECT no, count(*) AS n, count(*) FILTER (WHERE done) AS done
          FROM unnest(CAST(:nos AS int[]), CAST(:done AS boolean[])) AS t (no, done)
          GROUP BY no) AS again
    WHERE c.job_id = :job_id AND c.no = again.no
""")

_AGAIN = text(f"""
    INSERT INTO chunks (job_id, no, pool, first_seq, last_seq, seqs, items, state)
    SELECT :job_id, {NEXT_NO}, j.pool, :first, :last, :seqs, :count, 'ready'
    FROM jobs j WHERE j.id = :job_id
""")
