"""What was made, streamed from one transaction: results of a job, vectors of a collection."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from app.domain.flattening import Kind, column_kinds, flattened
from app.domain.jobs import Job
from app.errors import NotFound
from app.storage.database import Database
from app.storage.result_store import ResultStore
from app.storage.vector_store import VectorStore


def results(database: Database, job_id: int) -> Generator[dict[str, Any], None, None]:
    """Every result of a job: key, status, code, error, tokens, output."""
    with database.transaction() as tx:
        yield from ResultStore(tx).exported(job_id)


def results_with_items(database: Database, job_id: int) -> Generator[dict[str, Any], None, None]:
    """The same, with each item's fields as `payload`."""
    with database.transaction() as tx:
        yield from ResultStore(tx).with_items(job_id)


@contextmanager
def flat_results(
    database: Database, job: Job
) -> Iterator[tuple[dict[str, Kind], Iterator[dict[str, Any]]]]:
    """The same with the output as columns of its own, and what those columns are: they are looked
    through first, as of one moment, since the last row may have another field than the first."""
    single = is_single(job)
    with database.transaction() as tx:
        store = ResultStore(tx)
        store.as_of_now()
        yield (
            column_kinds(_flat(row, single=single) for row in store.exported(job.id)),
            ({**row, **_flat(row, single=single)} for row in store.exported(job.id)),
        )


def is_single(job: Job) -> bool:
    """Whether lists in its outputs are of repeats, and each has one."""
    return job.kind == "evaluate" and job.params.get("repeats", 1) == 1


def _flat(row: Mapping[str, Any], *, single: bool) -> dict[str, Any]:
    return flattened(row["output"], "output", single=single)


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
