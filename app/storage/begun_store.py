"""Begun answers: what items' calls had given when they were closed, at most one an item."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

from app.domain.chunks import Lease
from app.domain.resuming import Begun


class BegunStore:
    """Queries on `begun_answers`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def keep(self, lease: Lease, seq: int, begun: Begun) -> None:
        """Keep the beginning in place of an earlier one. The caller holds the lease."""
        values = {"asked": begun.asked, "output": begun.text, "tokens": begun.tokens}
        self._tx.execute(_KEEP, {"job_id": lease.job_id, "seq": seq} | values)

    def of(self, job_id: int, seqs: Sequence[int]) -> dict[int, Begun]:
        """The beginnings that these items have, by item."""
        if not seqs:
            return {}
        rows = self._tx.execute(_OF, {"job_id": job_id, "seqs": list(seqs)})
        return {row.seq: Begun(bytes(row.asked), row.output, row.tokens) for row in rows}

    def forget(self, job_id: int, seqs: Sequence[int]) -> None:
        """Delete the beginnings of items that need none any more."""
        if seqs:
            self._tx.execute(_FORGET, {"job_id": job_id, "seqs": list(seqs)})


_KEEP = text("""
    INSERT INTO begun_answers (job_id, seq, asked, output, tokens)
    VALUES (:job_id, :seq, :asked, :output, :tokens)
    ON CONFLICT (job_id, seq) DO UPDATE
    SET asked = excluded.asked, output = excluded.output, tokens = excluded.tokens
""")

_OF = text("""
    SELECT seq, asked, output, tokens FROM begun_answers
    WHERE job_id = :job_id AND seq = ANY(:seqs)
""")

_FORGET = text("DELETE FROM begun_answers WHERE job_id = :job_id AND seq = ANY(:seqs)")
