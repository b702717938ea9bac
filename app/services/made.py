"""What was made, page by page, however slow its reader: results of a job, vectors, items."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any

from app.domain.flattening import Kind, column_kinds, flattened
from app.domain.jobs import Job
from app.domain.results import Item
from app.errors import NotFound
from app.storage.database import Database
from app.storage.evaluation_store import EvaluationStore
from app.storage.item_store import Row
from app.storage.ledger_store import LedgerStore
from app.storage.paging import paged
from app.storage.result_store import ResultStore
from app.storage.vector_store import VectorStore

_BEFORE_ALL = ("", -1)


def results(database: Database, job_id: int) -> Generator[dict[str, Any], None, None]:
    """Every result of a job: key, status, code, error, tokens, output."""
    rows = paged(
        database, lambda tx, seq: ResultStore(tx).exported(job_id, seq), 0, lambda row: row[0]
    )
    return (row for _, row in rows)


def evaluated(database: Database, job_id: int) -> Generator[Any, None, None]:
    """Each item of a run with its question, expected answer, answers and scores."""
    return paged(
        database,
        lambda tx, seq: EvaluationStore(tx).shown(job_id, seq),
        0,
        lambda row: int(row.seq),
    )


def given(database: Database, job_id: int) -> Generator[Item, None, None]:
    """The items of a job that got a vector."""
    return paged(
        database, lambda tx, seq: LedgerStore(tx).given(job_id, seq), 0, lambda item: item.seq
    )


def items_of(database: Database, collection_id: int) -> Generator[Row, None, None]:
    """(key, payload as JSON) of every item of a collection, by key."""
    return paged(
        database,
        lambda tx, place: LedgerStore(tx).items_of(collection_id, place),
        _BEFORE_ALL,
        lambda row: (row[0], 0),
    )


def results_with_items(database: Database, job_id: int) -> Generator[dict[str, Any], None, None]:
    """The same, with each item's fields as `payload`."""
    rows = paged(
        database, lambda tx, seq: ResultStore(tx).with_items(job_id, seq), 0, lambda row: row[0]
    )
    return (row for _, row in rows)


@contextmanager
def flat_results(
    database: Database, job: Job
) -> Iterator[tuple[dict[str, Kind], Iterator[dict[str, Any]]]]:
    """The same with the output as columns of its own, and what those columns are. They are looked
    through first, in a file beside, since the last row may have another field than the first."""
    single = is_single(job)
    with TemporaryFile() as beside:

        def spooled() -> Iterator[dict[str, Any]]:
            for row in results(database, job.id):
                beside.write(json.dumps(row).encode() + b"\n")
                yield _flat(row, single=single)

        kinds = column_kinds(spooled())
        beside.seek(0)
        rows = (json.loads(line) for line in beside)
        yield kinds, ({**row, **_flat(row, single=single)} for row in rows)


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
    rows = paged(
        database,
        lambda tx, place: VectorStore(tx).exported(found.id, place),
        _BEFORE_ALL,
        lambda row: (row[0], row[1]),
    )
    for key, piece, content_hash, vector in rows:
        yield key, piece, content_hash, found.model, vector


def has_pieces(database: Database, collection: str) -> bool:
    """Whether some item of the collection has more than one vector."""
    with database.transaction() as tx:
        found = VectorStore(tx).find(collection)
        return found is not None and VectorStore(tx).has_pieces(found.id)
