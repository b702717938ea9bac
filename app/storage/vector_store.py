"""Collections of vectors: one model and one dimension each, written under the chunk's fence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pgvector import Vector
from pgvector.psycopg import register_vector
from sqlalchemy import Connection, text

from app.errors import CollectionConflict
from app.storage.database import driver

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Collection:
    """`dimension` is None until the first vector."""

    id: int
    name: str
    model: str
    dimension: int | None


@dataclass(frozen=True, slots=True)
class Embedding:
    """What is stored beside a vector: whose it is, and the hash of what was embedded."""

    key: str
    content_hash: bytes
    seq: int


class VectorStore:
    """Queries on `collections` and `embeddings`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def ensure(self, name: str, model: str) -> Collection:
        """The collection called `name`, made if need be. CollectionConflict: another model's."""
        self._tx.execute(_ENSURE, {"name": name, "model": model})
        found = self.find(name)
        assert found is not None
        if found.model != model:
            raise CollectionConflict(
                f"collection {name!r} holds vectors of model {found.model!r}, not {model!r}; "
                f"models are never mixed: use another --collection, or --model {found.model}"
            )
        return found

    def find(self, name: str) -> Collection | None:
        """The collection called `name`."""
        row = self._tx.execute(_FIND, {"name": name}).one_or_none()
        return None if row is None else Collection(row.id, row.name, row.model, row.dimension)

    def listed(self) -> list[dict[str, Any]]:
        """Every collection with its count of vectors."""
        return [dict(row) for row in self._tx.execute(_LISTED).mappings()]

    def fix_dimension(self, collection_id: int, dimension: int) -> int:
        """The collection's dimension: `dimension` if it had none."""
        self._tx.execute(_FIX, {"id": collection_id, "dimension": dimension})
        return int(self._tx.execute(_DIMENSION, {"id": collection_id}).scalar_one())

    def hashes(self, collection_id: int, keys: Sequence[str]) -> dict[str, bytes]:
        """Content hash by key, of those keys that have a vector."""
        rows = self._tx.execute(_HASHES, {"id": collection_id, "keys": list(keys)})
        return {row.key: bytes(row.content_hash) for row in rows}

    def write(
        self, collection_id: int, job_id: int, rows: Sequence[Embedding], vectors: Vectors
    ) -> None:
        """Insert or replace the vectors of `rows`: (len(rows), dimension), sorted by key so that
        two jobs over the same keys wait for each other instead of deadlocking."""
        connection = driver(self._tx)
        if connection.adapters.types.get("vector") is None:
            register_vector(connection)
        self._tx.execute(_STAGE)
        order = sorted(range(len(rows)), key=lambda n: rows[n].key)
        with (
            connection.cursor() as cursor,
            cursor.copy("COPY staged_vectors FROM STDIN (FORMAT BINARY)") as copy,
        ):
            copy.set_types(["text", "bytea", "int8", "vector"])
            for n in order:
                row = rows[n]
                copy.write_row((row.key, row.content_hash, row.seq, vectors[n]))
        self._tx.execute(_WRITE, {"id": collection_id, "job_id": job_id})

    def nearest(self, collection_id: int, vector: Vectors, most: int) -> list[dict[str, Any]]:
        """The nearest items by cosine: key, score (1 is the same direction), payload."""
        literal = Vector(vector).to_text()
        rows = self._tx.execute(_NEAREST, {"id": collection_id, "vector": literal, "most": most})
        return [dict(row) for row in rows.mappings()]

    def exported(self, collection_id: int) -> Iterator[tuple[str, bytes, list[float]]]:
        """(key, content hash, vector) by key, streamed."""
        rows = self._tx.execution_options(stream_results=True, max_row_buffer=1000).execute(
            _EXPORTED, {"id": collection_id}
        )
        for row in rows:
            yield row.key, bytes(row.content_hash), Vector.from_text(row.vector).to_list()


_ENSURE = text("""
    INSERT INTO collections (name, model) VALUES (:name, :model) ON CONFLICT DO NOTHING
""")
_FIND = text("SELECT id, name, model, dimension FROM collections WHERE name = :name")
_LISTED = text("""
    SELECT c.name, c.model, c.dimension, count(e.key) AS vectors
    FROM collections c LEFT JOIN embeddings e ON e.collection_id = c.id
    GROUP BY c.id ORDER BY c.name
""")
_FIX = text("UPDATE collections SET dimension = :dimension WHERE id = :id AND dimension IS NULL")
_DIMENSION = text("SELECT dimension FROM collections WHERE id = :id")
_HASHES = text("""
    SELECT key, content_hash FROM embeddings WHERE collection_id = :id AND key = ANY(:keys)
""")
_STAGE = text("""
    CREATE TEMP TABLE IF NOT EXISTS staged_vectors (key text, content_hash bytea, seq bigint,
        vector vector) ON COMMIT DELETE ROWS
""")
_WRITE = text("""
    INSERT INTO embeddings (collection_id, key, content_hash, vector, job_id, seq)
    SELECT :id, key, content_hash, vector, :job_id, seq FROM staged_vectors
    ON CONFLICT (collection_id, key) DO UPDATE SET content_hash = excluded.content_hash,
        vector = excluded.vector, job_id = excluded.job_id, seq = excluded.seq,
        embedded_at = now()
""")
_NEAREST = text("""
    SELECT e.key, 1 - (e.vector <=> CAST(:vector AS vector)) AS score, i.payload
    FROM embeddings e LEFT JOIN items i ON i.job_id = e.job_id AND i.seq = e.seq
    WHERE e.collection_id = :id
    ORDER BY e.vector <=> CAST(:vector AS vector) LIMIT :most
""")
_EXPORTED = text("""
    SELECT key, content_hash, CAST(vector AS text) AS vector FROM embeddings
    WHERE collection_id = :id ORDER BY key
""")
