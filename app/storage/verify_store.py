"""What is wrong in a collection: by itself, and beside what is given for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import Connection, text

from app.storage.database import driver


@dataclass(frozen=True, slots=True)
class Faulty:
    """A vector that cannot be right, and why in one word."""

    key: str
    piece: int
    fault: str


class VerifyStore:
    """Queries on vectors, over a session of the caller's: `Database.session`."""

    def __init__(self, own: Connection) -> None:
        self._tx = own
        self.staged = 0
        """Rows that are laid beside."""

    @contextmanager
    def beside(self, rows: Iterable[tuple[str, bytes, int]]) -> Iterator[VerifyStore]:
        """Lay what is given beside the collection while the block runs: (key, content hash,
        pieces). Of a key that comes twice the first counts. `rows` may be slow: they are copied in
        pages, and nothing is open meanwhile.
        """
        self._tx.execute(_DROP_SOURCE)  # What one left whose connection was given back in haste.
        self._tx.execute(_STAGE_SOURCE)
        try:
            rest = iter(rows)
            while page := list(islice(rest, _AT_ONCE)):
                self._stage(page)
            self._tx.execute(text("ANALYZE staged_source"))
            yield self
        finally:
            if not self._tx.invalidated:
                self._tx.execute(_DROP_SOURCE)

    def _stage(self, page: Sequence[tuple[str, bytes, int]]) -> None:
        with (
            driver(self._tx).cursor() as cursor,
            cursor.copy(
                "COPY staged_source (key, content_hash, pieces) FROM STDIN (FORMAT BINARY)"
            ) as copy,
        ):
            copy.set_types(["text", "bytea", "int4"])
            for row in page:
                copy.write_row(row)
        self.staged += len(page)

    def compared(self, collection_id: int, most: int) -> dict[str, tuple[int, list[str]]]:
        """What is staged against what has vectors: counts and the first keys, by fault.

        missing: no vector. stale: a vector of another text. orphan: a vector, but not in the
        source. incomplete: fewer or more pieces than the text has.
        """
        rows = self._tx.execute(_COMPARED, {"id": collection_id, "most": most})
        return {row.fault: (int(row.n), list(row.keys)) for row in rows}

    def faulty(self, collection_id: int, most: int) -> list[Faulty]:
        """Vectors with a wrong length, nothing but zeros, or a piece missing before them."""
        rows = self._tx.execute(_FAULTY, {"id": collection_id, "most": most})
        return [Faulty(row.key, row.piece, row.fault) for row in rows]


_AT_ONCE = 2000
_DROP_SOURCE = text("DROP TABLE IF EXISTS pg_temp.staged_source")
_STAGE_SOURCE = text("""
    CREATE TEMP TABLE staged_source (rank bigint GENERATED ALWAYS AS IDENTITY, key text,
        content_hash bytea, pieces int)
""")

_COMPARED = text("""
    WITH stored AS (
        SELECT key, min(content_hash) AS content_hash, count(*) AS pieces,
            count(DISTINCT content_hash) AS hashes
        FROM embeddings WHERE collection_id = :id GROUP BY key),
    given AS (
        SELECT DISTINCT ON (key) key, content_hash, pieces FROM staged_source ORDER BY key, rank),
    faults AS (
        SELECT coalesce(s.key, v.key) AS key, CASE
            WHEN v.key IS NULL THEN 'missing' WHEN s.key IS NULL THEN 'orphan'
            WHEN v.hashes > 1 OR v.content_hash <> s.content_hash THEN 'stale'
            WHEN v.pieces <> s.pieces THEN 'incomplete' END AS fault
        FROM given s FULL JOIN stored v ON v.key = s.key)
    SELECT fault, count(*) AS n, (array_agg(key ORDER BY key))[1:CAST(:most AS int)] AS keys
    FROM faults WHERE fault IS NOT NULL GROUP BY fault
""")

_FAULTY = text("""
    SELECT e.key, e.piece, CASE WHEN vector_dims(e.vector) <> c.dimension THEN 'wrong_length'
        WHEN vector_norm(e.vector) = 0 THEN 'zeros' ELSE 'hole' END AS fault
    FROM embeddings e JOIN collections c ON c.id = e.collection_id
    WHERE e.collection_id = :id AND (vector_dims(e.vector) <> c.dimension
        OR vector_norm(e.vector) = 0
        OR e.piece > 0 AND NOT EXISTS (SELECT FROM embeddings b WHERE b.collection_id = :id
            AND b.key = e.key AND b.piece = e.piece - 1))
    ORDER BY e.key, e.piece LIMIT :most
""")
