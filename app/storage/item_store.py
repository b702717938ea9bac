"""Items: loaded once by COPY, read by chunk, never updated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import psycopg
from sqlalchemy import Connection, func, select, text

from app.domain.chunks import Seqs
from app.domain.results import Item
from app.errors import BadSource
from app.storage.database import driver
from app.storage.tables import items

Row = tuple[str, bytes]
"""(key, payload as JSON bytes)."""


class ItemStore:
    """Queries on `items`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def load(self, job_id: int, rows: Iterable[Row]) -> int:
        """Copy `rows` in as seq 1, 2, …; how many. Raises BadSource for a key that comes twice."""
        count = 0
        statement = "COPY items (job_id, seq, key, payload) FROM STDIN"
        try:
            with driver(self._tx).cursor() as cursor, cursor.copy(statement) as copy:
                for block, size in _blocks(job_id, rows):
                    copy.write(block)
                    count += size
        except psycopg.errors.UniqueViolation as error:
            detail = error.diag.message_detail or ""
            raise BadSource(f"two lines have the same id: {detail}") from error
        return count

    def delete(self, job_id: int) -> None:
        """Remove a job's items."""
        self._tx.execute(items.delete().where(items.c.job_id == job_id))

    def prune(self, job_id: int, most: int) -> int:
        """Delete at most `most` of a job's items, with all that came of them; how many."""
        return int(self._tx.execute(_PRUNE, {"job_id": job_id, "most": most}).scalar_one())

    def count(self, job_id: int) -> int:
        """How many items the job has."""
        query = select(func.count()).where(items.c.job_id == job_id)
        return int(self._tx.execute(query).scalar_one())

    def pending(
        self, job_id: int, first_seq: int, last_seq: int, seqs: tuple[int, ...] | None
    ) -> list[Item]:
        """The items of a chunk that have no result yet, in order.

        A crash never pays twice for an answered call: what was answered is not read again.
        """
        rows = self._tx.execute(
            _PENDING_LISTED if seqs is not None else _PENDING_RUN,
            {"job_id": job_id, "first": first_seq, "last": last_seq}
            if seqs is None
            else {"job_id": job_id, "seqs": list(seqs)},
        )
        return [Item(row.seq, row.key, row.payload) for row in rows]

    def pending_seqs(self, job_id: int, seqs: Seqs) -> Seqs | None:
        """Those of `seqs` that have no result yet; None: all have one."""
        left = tuple(item.seq for item in self.pending(job_id, seqs.first, seqs.last, seqs.listed))
        return Seqs(left[0], left[-1], left) if left else None


_WITHOUT_RESULT = """
    SELECT i.seq, i.key, i.payload FROM items i
    LEFT JOIN results r ON r.job_id = i.job_id AND r.seq = i.seq
    WHERE i.job_id = :job_id AND r.seq IS NULL AND {which}
    ORDER BY i.seq
"""
_PENDING_RUN = text(_WITHOUT_RESULT.format(which="i.seq BETWEEN :first AND :last"))
_PENDING_LISTED = text(_WITHOUT_RESULT.format(which="i.seq = ANY(:seqs)"))

_PRUNE = text("""
    WITH old AS (
        DELETE FROM items WHERE job_id = :job_id AND seq IN (
            SELECT seq FROM items WHERE job_id = :job_id ORDER BY seq LIMIT :most)
        RETURNING seq
    ), no_results AS (
        DELETE FROM results WHERE job_id = :job_id AND seq IN (SELECT seq FROM old)
    ), no_steps AS (
        DELETE FROM steps WHERE job_id = :job_id AND seq IN (SELECT seq FROM old)
    ), none_begun AS (
        DELETE FROM begun_answers WHERE job_id = :job_id AND seq IN (SELECT seq FROM old)
    )
    SELECT count(*) FROM old
""")

_ROWS_A_BLOCK = 2000


def _blocks(job_id: int, rows: Iterable[Row]) -> Iterator[tuple[bytes, int]]:
    """COPY text in blocks: one write a block, not one a row."""
    lines: list[bytes] = []
    for seq, (key, payload) in enumerate(rows, start=1):
        # Tabs and line ends are not printable; nearly every key needs no more than this look.
        name = key.encode()
        if not key.isprintable() or "\\" in key:
            name = _escaped(name)
        lines.append(b"%d\t%d\t%b\t%b\n" % (job_id, seq, name, _escaped(payload)))
        if len(lines) >= _ROWS_A_BLOCK:
            yield b"".join(lines), len(lines)
            lines.clear()
    if lines:
        yield b"".join(lines), len(lines)


def _escaped(value: bytes) -> bytes:
    """`value` as a field of COPY's text format."""
    if b"\\" in value:
        value = value.replace(b"\\", b"\\\\")
    if b"\n" in value or b"\t" in value or b"\r" in value:
        value = value.replace(b"\n", b"\\n").replace(b"\t", b"\\t").replace(b"\r", b"\\r")
    return value
