"""Collections as a whole: their figures, their swap, and what goes from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text


@dataclass(frozen=True, slots=True)
class CollectionStats:
    """Figures of a collection. `coming` counts items of open jobs that have no result yet.

    `indexed`: its index is there and whole. Sizes are in bytes, of all collections' table share.
    """

    id: int
    name: str
    model: str
    dimension: int | None
    replaces: str | None
    vectors: int
    items: int
    coming: int
    sources: int
    oldest_at: datetime | None
    newest_at: datetime | None
    vector_bytes: int
    indexed: bool
    index_bytes: int


class CollectionStore:
    """Queries on `collections`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def stats(self, name: str | None = None) -> list[CollectionStats]:
        """Figures of the collection called `name`, or of all."""
        rows = self._tx.execute(_STATS, {"name": name}).mappings()
        return [CollectionStats(**row) for row in rows]

    def mark_replacement(self, name: str, replaces: str) -> None:
        """Note that the collection `name` was made to replace another."""
        self._tx.execute(_MARK, {"name": name, "replaces": replaces})

    def lacking(self, old_id: int, new_id: int, most: int) -> tuple[int, list[str]]:
        """Items of the old collection without a vector in the new one: how many, and the first."""
        row = self._tx.execute(_LACKING, {"old": old_id, "new": new_id, "most": most}).one()
        return int(row.n), list(row.keys or ())

    def swap(self, old: str, new: str, retired: str) -> None:
        """`new` is called `old` from now on, and what was is called `retired`. All or nothing.

        The sources of the old one's items go over, so that what they give no more is still found.
        """
        self._tx.execute(_LOCK_BOTH, {"names": [old, new]})
        self._tx.execute(_SOURCES_OVER, {"old": old, "new": new})
        # The name is unique at every statement's end: three steps.
        for was, becomes in ((old, retired), (new, old)):
            self._tx.execute(_RENAME, {"was": was, "becomes": becomes})

    def delete(self, collection_id: int) -> int:
        """Remove a collection with its vectors; how many vectors."""
        gone = self._tx.execute(_DELETE_VECTORS, {"id": collection_id}).rowcount
        self._tx.execute(_DELETE, {"id": collection_id})
        return gone

    def delete_missing(self, job_ids: Sequence[int]) -> dict[int, int]:
        """Delete vectors of what the sources of these jobs gave before and give no more.

        Only for jobs that say so, that read every line and that were given something at all; never
        what another source gave, nor what a later job was given. How many items, by job.
        """
        if not job_ids:
            return {}
        rows = self._tx.execute(_DELETE_MISSING, {"job_ids": list(job_ids)})
        return {row.id: int(row.deleted) for row in rows}


_STATS = text("""
    SELECT c.id, c.name, c.model, c.dimension, c.replaces, e.vectors, e.items, e.sources,
        e.oldest_at, e.newest_at, e.vector_bytes,
        coalesce((SELECT sum(k.items - k.ok - k.unchanged - k.empty - k.failed)
            FROM jobs j JOIN chunks k ON k.job_id = j.id AND k.state IN ('ready', 'leased')
            WHERE j.state IN ('ready', 'running', 'paused')
              AND j.params ->> 'collection' = c.name), 0)::bigint AS coming,
        coalesce(x.indisvalid, false) AS indexed,
        coalesce(pg_relation_size(x.indexrelid), 0) AS index_bytes
    FROM collections c
    LEFT JOIN LATERAL (
        SELECT count(*) AS vectors, count(*) FILTER (WHERE piece = 0) AS items,
            count(DISTINCT source) AS sources, min(embedded_at) AS oldest_at,
            max(embedded_at) AS newest_at, coalesce(sum(pg_column_size(vector)), 0) AS vector_bytes
        FROM embeddings WHERE collection_id = c.id) AS e ON true
    LEFT JOIN pg_class p ON p.relname = 'ix_embeddings_hnsw_' || c.id
        AND p.relnamespace = to_regnamespace(current_schema())
    LEFT JOIN pg_index x ON x.indexrelid = p.oid
    WHERE CAST(:name AS text) IS NULL OR c.name = :name ORDER BY c.name
""")

_MARK = text("UPDATE collections SET replaces = :replaces WHERE name = :name")

_LACKING = text("""
    SELECT count(*) AS n, (array_agg(o.key ORDER BY o.key))[1:CAST(:most AS int)] AS keys
    FROM embeddings o WHERE o.collection_id = :old AND o.piece = 0
      AND NOT EXISTS (SELECT FROM embeddings n WHERE n.collection_id = :new AND n.key = o.key)
""")

_LOCK_BOTH = text("SELECT id FROM collections WHERE name = ANY(:names) ORDER BY id FOR UPDATE")

_SOURCES_OVER = text("""
    UPDATE embeddings n SET source = o.source
    FROM embeddings o, collections old, collections new
    WHERE old.name = :old AND new.name = :new AND o.collection_id = old.id AND o.piece = 0
      AND n.collection_id = new.id AND n.key = o.key AND n.source IS DISTINCT FROM o.source
""")

_RENAME = text("UPDATE collections SET name = :becomes, replaces = NULL WHERE name = :was")

_DELETE_VECTORS = text("DELETE FROM embeddings WHERE collection_id = :id")

_DELETE = text("DELETE FROM collections WHERE id = :id")

_DELETE_MISSING = text("""
    WITH swept AS (
        SELECT j.id, j.source, c.id AS collection_id, c.name FROM jobs j
        JOIN collections c ON c.name = j.params ->> 'collection'
        WHERE j.id = ANY(:job_ids) AND j.delete_missing AND j.source IS NOT NULL
          AND j.total > 0 AND j.skipped_lines = 0),
    gone AS (
        DELETE FROM embeddings e USING swept s
        WHERE e.collection_id = s.collection_id AND e.source = s.source
          AND NOT EXISTS (SELECT FROM items i WHERE i.job_id = s.id AND i.key = e.key)
          AND NOT EXISTS (SELECT FROM jobs l JOIN items i ON i.job_id = l.id
              WHERE l.id > s.id AND l.params ->> 'collection' = s.name AND i.key = e.key
                AND l.state NOT IN ('loading', 'cancelled', 'failed'))
        RETURNING s.id, e.key)
    UPDATE jobs j SET deleted = n.deleted
    FROM (SELECT id, count(DISTINCT key) AS deleted FROM gone GROUP BY id) AS n
    WHERE j.id = n.id RETURNING j.id, j.deleted
""")
