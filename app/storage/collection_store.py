"""Collections as a whole: their figures, their index, what is wrong in them, and their swap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Connection, text

from app.domain.results import Item
from app.storage.database import driver
from app.storage.item_store import Row


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


@dataclass(frozen=True, slots=True)
class NewestJob:
    """The newest completed job of a source. `kept`: its items have not been deleted since."""

    id: int
    key: str
    params: dict[str, Any]
    kept: bool


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """What decides about an index; `vectors` is an estimate, or counted up to a bound."""

    id: int
    name: str
    dimension: int | None
    vectors: int
    coming: int
    indexed: bool


@dataclass(frozen=True, slots=True)
class Faulty:
    """A vector that cannot be right, and why in one word."""

    key: str
    piece: int
    fault: str


class CollectionStore:
    """Queries on `collections`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def stats(self, name: str | None = None) -> list[CollectionStats]:
        """Figures of the collection called `name`, or of all."""
        rows = self._tx.execute(_STATS, {"name": name}).mappings()
        return [CollectionStats(**row) for row in rows]

    def index_facts(self, counted_up_to: int) -> list[IndexFacts]:
        """What decides about the indexes of all collections, without reading them through."""
        rows = self._tx.execute(_INDEX_FACTS, {"most": counted_up_to}).mappings()
        return [IndexFacts(**row) for row in rows]

    def faulty(self, collection_id: int, most: int) -> list[Faulty]:
        """Vectors with a wrong length, nothing but zeros, or a piece missing before them."""
        rows = self._tx.execute(_FAULTY, {"id": collection_id, "most": most})
        return [Faulty(row.key, row.piece, row.fault) for row in rows]

    def stage_source(self, rows: Iterable[tuple[str, bytes, int]]) -> int:
        """Lay what is given beside the collection: (key, content hash, pieces); how many rows.

        Of a key that comes twice the first counts.
        """
        self._tx.execute(_STAGE_SOURCE)
        count = 0
        with (
            driver(self._tx).cursor() as cursor,
            cursor.copy(
                "COPY staged_source (key, content_hash, pieces) FROM STDIN (FORMAT BINARY)"
            ) as copy,
        ):
            copy.set_types(["text", "bytea", "int4"])
            for row in rows:
                copy.write_row(row)
                count += 1
        self._tx.execute(text("ANALYZE staged_source"))
        return count

    def newest_jobs(self, collection_id: int) -> list[NewestJob]:
        """The newest completed job of each source, the newest first."""
        rows = self._tx.execute(_NEWEST, {"id": collection_id})
        return [NewestJob(row.id, row.key, row.params, row.kept) for row in rows]

    def given(self, job_id: int) -> Iterator[Item]:
        """The items of a job that got a vector, streamed."""
        rows = self._tx.execution_options(stream_results=True, max_row_buffer=2000).execute(
            _GIVEN, {"job_id": job_id}
        )
        for row in rows:
            yield Item(row.seq, row.key, row.payload)

    def compared(self, collection_id: int, most: int) -> dict[str, tuple[int, list[str]]]:
        """What is staged against what has vectors: counts and the first keys, by fault.

        missing: no vector. stale: a vector of another text. orphan: a vector, but not in the
        source. incomplete: fewer or more pieces than the text has.
        """
        rows = self._tx.execute(_COMPARED, {"id": collection_id, "most": most})
        return {row.fault: (int(row.n), list(row.keys)) for row in rows}

    def items_of(self, collection_id: int) -> Iterator[Row]:
        """(key, payload as JSON) of every item with vectors, by key, streamed."""
        rows = self._tx.execution_options(stream_results=True, max_row_buffer=2000).execute(
            _ITEMS_OF, {"id": collection_id}
        )
        for row in rows:
            yield row.key, orjson.dumps(row.payload)

    def ledger(self, collection_id: int) -> dict[str, Any]:
        """Of the items with vectors: how many, how many have lost their text, a checksum of them
        all, and the parameters of the newest job that wrote some."""
        row = self._tx.execute(_LEDGER, {"id": collection_id}).mappings().one()
        return dict(row)

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


def index_name(collection_id: int) -> str:
    """The name of a collection's own index."""
    return f"ix_embeddings_hnsw_{int(collection_id)}"


def build_index(collection_id: int, dimension: int) -> str:
    """The statement that builds it while others read and write; outside any transaction."""
    return (
        f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {index_name(collection_id)} ON embeddings "
        f"USING hnsw (CAST(vector AS vector({int(dimension)})) vector_cosine_ops) "
        f"WHERE collection_id = {int(collection_id)}"
    )


def drop_index(collection_id: int) -> str:
    """The statement that drops it, built or half-built; outside any transaction."""
    return f"DROP INDEX CONCURRENTLY IF EXISTS {index_name(collection_id)}"


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

_INDEX_FACTS = text("""
    SELECT c.id, c.name, c.dimension, coalesce(x.indisvalid, false) AS indexed,
        CASE WHEN x.indisvalid AND p.reltuples > 0 THEN p.reltuples::bigint ELSE
            (SELECT count(*) FROM (
                SELECT FROM embeddings WHERE collection_id = c.id LIMIT :most) AS counted)
        END AS vectors,
        coalesce((SELECT sum(k.items - k.ok - k.unchanged - k.empty - k.failed)
            FROM jobs j JOIN chunks k ON k.job_id = j.id AND k.state IN ('ready', 'leased')
            WHERE j.state IN ('ready', 'running') AND j.params ->> 'collection' = c.name),
            0)::bigint AS coming
    FROM collections c
    LEFT JOIN pg_class p ON p.relname = 'ix_embeddings_hnsw_' || c.id
        AND p.relnamespace = to_regnamespace(current_schema())
    LEFT JOIN pg_index x ON x.indexrelid = p.oid
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

_STAGE_SOURCE = text("""
    CREATE TEMP TABLE staged_source (rank bigint GENERATED ALWAYS AS IDENTITY, key text,
        content_hash bytea, pieces int) ON COMMIT DROP
""")

_NEWEST = text("""
    SELECT id, key, params, kept FROM (
        SELECT DISTINCT ON (j.source) j.id, j.key, j.params, j.pruned_at IS NULL AS kept
        FROM collections c JOIN jobs j ON j.params ->> 'collection' = c.name
            AND j.params ->> 'model' = c.model AND j.state = 'completed'
        WHERE c.id = :id ORDER BY j.source, j.id DESC) AS newest
    ORDER BY id DESC
""")

_GIVEN = text("""
    SELECT i.seq, i.key, i.payload FROM items i
    JOIN results r ON r.job_id = i.job_id AND r.seq = i.seq AND r.status IN ('done', 'unchanged')
    WHERE i.job_id = :job_id ORDER BY i.seq
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

_ITEMS_OF = text("""
    SELECT e.key, i.payload FROM embeddings e
    JOIN items i ON i.job_id = e.job_id AND i.seq = e.seq
    WHERE e.collection_id = :id AND e.piece = 0 ORDER BY e.key
""")

_LEDGER = text("""
    SELECT count(*) AS items, count(*) FILTER (WHERE i.seq IS NULL) AS without_text,
        coalesce(sum(hashtextextended(e.key || encode(e.content_hash, 'hex'), 0)::numeric), 0)
            AS checksum,
        (SELECT params FROM jobs WHERE id = max(e.job_id)) AS params
    FROM embeddings e LEFT JOIN items i ON i.job_id = e.job_id AND i.seq = e.seq
    WHERE e.collection_id = :id AND e.piece = 0
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
