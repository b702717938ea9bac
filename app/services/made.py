"""What was made, streamed from one transaction: results of a job, vectors of a collection."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from app.errors import NotFound
from app.storage.database import Database
from app.storage.result_store import ResultStore
from app.storage.vector_store import VectorStore


def results(database: Database, job_id: int) -> Generator[dict[str, Any], None, None]:
    """Every result of a job: key, status, code, error, tokens, output."""
    with database.transaction() as tx:
        yield from ResultStore(tx).exported(job_id)


def vectors(
    database: Database, collection: str
) -> Generator[tuple[str, int, bytes, str, list[float]], None, None]:
    """(key, piece, content hash, model, vector) of a collection. NotFound: no such."""
    with database.transaction() as tx:
        found = VectorStore(tx).find(collection)
        if found is None:
            known = ", ".join(c["name"] for c in VectorStore(tx).listed()) or "none"
            raise NotFound(f"no collection {collection!r}; known: {known}")
        for key, piece, content_hash, vector in VectorStore(tx).exported(found.id):
            yield key, piece, content_hash, found.model, vector


def has_pieces(database: Database, collection: str) -> bool:
    """Whether some item of the collection has more than one vector."""
    with database.transaction() as tx:
        found = VectorStore(tx).find(collection)
        return found is not None and VectorStore(tx).has_pieces(found.id)
