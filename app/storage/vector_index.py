"""The index of a collection: what decides about it, and the statements that build and drop it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, TextClause, text

INDEXING = "giveway.indexing"
"""The lock of whoever builds or drops an index."""


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """What decides about an index; `vectors` is an estimate, or counted up to a bound."""

    id: int
    name: str
    dimension: int | None
    vectors: int
    coming: int
    indexed: bool


def index_facts(tx: Connection, counted_up_to: int) -> list[IndexFacts]:
    """What decides about the indexes of all collections, without reading them through."""
    rows = tx.execute(_INDEX_FACTS, {"most": counted_up_to}).mappings()
    return [IndexFacts(**row) for row in rows]


def index_name(collection_id: int) -> str:
    """The name of a collection's own index."""
    return f"ix_embeddings_hnsw_{int(collection_id)}"


def build_index(collection_id: int, dimension: int) -> TextClause:
    """The statement that builds it while others read and write; outside any transaction."""
    return text(
        f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {index_name(collection_id)} ON embeddings "
        f"USING hnsw (CAST(vector AS vector({int(dimension)})) vector_cosine_ops) "
        f"WHERE collection_id = {int(collection_id)}"
    )


def drop_index(collection_id: int) -> TextClause:
    """The statement that drops it, built or half-built; outside any transaction."""
    return text(f"DROP INDEX CONCURRENTLY IF EXISTS {index_name(collection_id)}")


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
