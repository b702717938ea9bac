"""Collections of vectors: one model and one dimension each, written under the chunk's fence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pgvector import Vector
from pgvector.psycopg import register_vector
from sqlalchemy import Connection, text

from app.errors import CollectionConflict
from app.storage.database import driver
from app.storage.paging import ROWS

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
    piece: int = 0
    begins: int | None = None
    ends: int | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """A piece that has a vector: the hash of the text it is of, and the source that gave it."""

    content_hash: bytes
    source: bytes | None


class VectorStore:
    """Queries on `collections` and `embeddings`, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

    def ensure(self, name: str, model: str) -> Collection:
        """The collection called `name`, made if need be. CollectionConflict: another model's."""
        self._tx.execute(_ENSURE, {"name": name, "model": model})
        found = self.check_model(name, model)
        assert found is not None
        return found

    def check_model(self, name: str, model: str) -> Collection | None:
        """The collection called `name`, if there is one. CollectionConflict: another model's."""
        found = self.find(name)
        if found is not None and found.model != model:
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

    def known(self, collection_id: int, keys: Sequence[str]) -> dict[tuple[str, int], Known]:
        """What has a vector of the items with these keys, by key and piece."""
        rows = self._tx.execute(_KNOWN, {"id": collection_id, "keys": list(keys)})
        return {
            (row.key, row.piece): Known(
                bytes(row.content_hash), None if row.source is None else bytes(row.source)
            )
            for row in rows
        }

    def share(self, collection_id: int) -> None:
        """Held while vectors are written: see `hold_off`. Until the transaction's end."""
        self._tx.execute(_SHARE, {"id": collection_id})

    def hold_off(self, collection_id: int) -> None:
        """Wait until no vectors of the collection are being written, and let none be begun before
        this transaction's end: whoever writes afterwards sees the job that is loaded here."""
        self._tx.execute(_HOLD_OFF, {"id": collection_id})

    def superseded(self, name: str, job_id: int, keys: Sequence[str]) -> set[str]:
        """Those of `keys` that a job submitted after `job_id` has for the collection `name`.

        Their vectors are that job's to write: what this one embedded is an older text.
        """
        values = {"name": name, "job_id": job_id, "keys": list(keys)}
        return set(self._tx.execute(_SUPERSEDED, values).scalars())

    def adopt(self, collection_id: int, keys: Sequence[str], source: bytes) -> None:
        """Say that `source` gives these items now."""
        self._tx.execute(_ADOPT, {"id": collection_id, "keys": list(keys), "source": source})

    def drop_beyond(self, collection_id: int, pieces: Mapping[str, int]) -> None:
        """Delete what is left of longer texts: pieces from that number on, by key."""
        values = {
            "id": collection_id,
            "keys": list(pieces),
            "pieces": list(pieces.values()),
        }
        self._tx.execute(_DROP_BEYOND, values)

    def write(
        self,
        collection_id: int,
        job_id: int,
        rows: Sequence[Embedding],
        vectors: Vectors,
        source: bytes | None = None,
    ) -> None:
        """Insert or replace the vectors of `rows`: (len(rows), dimension), sorted by key so that
        two jobs over the same keys wait for each other instead of deadlocking."""
        connection = driver(self._tx)
        if connection.adapters.types.get("vector") is None:
            register_vector(connection)
        self._tx.execute(_STAGE)
        order = sorted(range(len(rows)), key=lambda n: (rows[n].key, rows[n].piece))
        with (
            connection.cursor() as cursor,
            cursor.copy("COPY staged_vectors FROM STDIN (FORMAT BINARY)") as copy,
        ):
            copy.set_types(["text", "int4", "int4", "int4", "bytea", "int8", "vector"])
            for n in order:
                row = rows[n]
                copy.write_row(
                    (
                        row.key,
                        row.piece,
                        row.begins,
                        row.ends,
                        row.content_hash,
                        row.seq,
                        vectors[n],
                    )
                )
        self._tx.execute(_WRITE, {"id": collection_id, "job_id": job_id, "source": source})

    def nearest(self, collection: Collection, vector: Vectors, most: int) -> list[dict[str, Any]]:
        """The nearest pieces by cosine: key, score (1 is the same way), begins, ends, payload.

        The dimension and the collection stand in the statement as numbers: only so does Postgres
        see that the collection's own index fits.
        """
        if collection.dimension is None:
            return []
        self._tx.execute(_WIDELY, {"ef": str(min(1000, max(40, 2 * most)))})
        self._tx.execute(_TO_THE_END)
        statement = _NEAREST.format(id=int(collection.id), dimension=int(collection.dimension))
        rows = self._tx.execute(text(statement), {"vector": Vector(vector).to_text(), "most": most})
        return [dict(row) for row in rows.mappings()]

    def has_pieces(self, collection_id: int) -> bool:
        """Whether some item has more than one vector."""
        return bool(self._tx.execute(_HAS_PIECES, {"id": collection_id}).scalar_one())

    def exported(
        self, collection_id: int, after: tuple[str, int]
    ) -> list[tuple[str, int, bytes, list[float]]]:
        """A page of (key, piece, content hash, vector) by key and piece: those after these two."""
        values = {"id": collection_id, "key": after[0], "piece": after[1], "most": ROWS}
        return [
            (row.key, row.piece, bytes(row.content_hash), Vector.from_text(row.vector).to_list())
            for row in self._tx.execute(_EXPORTED, values)
        ]


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
_KNOWN = text("""
    SELECT key, piece, content_hash, source FROM embeddings
    WHERE collection_id = :id AND key = ANY(:keys)
""")
_SHARE = text("SELECT pg_advisory_xact_lock_shared(hashtextextended('giveway.collection', :id))")
_HOLD_OFF = text("SELECT pg_advisory_xact_lock(hashtextextended('giveway.collection', :id))")
_SUPERSEDED = text("""
    SELECT DISTINCT i.key FROM jobs j JOIN items i ON i.job_id = j.id AND i.key = ANY(:keys)
    WHERE j.id > :job_id AND j.params ->> 'collection' = :name
        AND j.state NOT IN ('loading', 'cancelled', 'failed')
""")
_ADOPT = text("""
    UPDATE embeddings SET source = :source
    WHERE collection_id = :id AND key = ANY(:keys) AND source IS DISTINCT FROM :source
""")
_DROP_BEYOND = text("""
    DELETE FROM embeddings e
    USING unnest(CAST(:keys AS text[]), CAST(:pieces AS int[])) AS kept (key, pieces)
    WHERE e.collection_id = :id AND e.key = kept.key AND e.piece >= kept.pieces
""")
_STAGE = text("""
    CREATE TEMP TABLE IF NOT EXISTS staged_vectors (key text, piece int, begins int, ends int,
        content_hash bytea, seq bigint, vector vector) ON COMMIT DELETE ROWS
""")
_WRITE = text("""
    INSERT INTO embeddings (collection_id, key, piece, begins, ends, content_hash, vector, job_id,
        seq, source)
    SELECT :id, key, piece, begins, ends, content_hash, vector, :job_id, seq, :source
    FROM staged_vectors
    ON CONFLICT (collection_id, key, piece) DO UPDATE SET content_hash = excluded.content_hash,
        vector = excluded.vector, job_id = excluded.job_id, seq = excluded.seq,
        begins = excluded.begins, ends = excluded.ends,
        source = coalesce(excluded.source, embeddings.source), embedded_at = now()
    WHERE embeddings.job_id <= excluded.job_id
""")
# An index that filters afterwards may find too few: then it goes on.
_WIDELY = text("SELECT set_config('hnsw.ef_search', :ef, true)")
_TO_THE_END = text("SELECT set_config('hnsw.iterative_scan', 'strict_order', true)")
_NEAREST = """
    SELECT n.key, 1 - n.distance AS score, n.begins, n.ends, i.payload
    FROM (SELECT e.key, e.begins, e.ends, e.job_id, e.seq,
              CAST(e.vector AS vector({dimension})) <=> CAST(:vector AS vector({dimension}))
                  AS distance
          FROM embeddings e WHERE e.collection_id = {id} ORDER BY distance LIMIT :most) AS n
    LEFT JOIN items i ON i.job_id = n.job_id AND i.seq = n.seq
    ORDER BY n.distance
"""
_HAS_PIECES = text("""
    SELECT EXISTS (SELECT FROM embeddings WHERE collection_id = :id AND piece > 0)
""")
_EXPORTED = text("""
    SELECT key, piece, content_hash, CAST(vector AS text) AS vector FROM embeddings
    WHERE collection_id = :id AND (key, piece) > (:key, :piece) ORDER BY key, piece LIMIT :most
""")
