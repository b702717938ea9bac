"""The ledger: what the vectors of a collection were made of, as its jobs keep it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, text

from app.domain.results import Item
from app.storage.item_store import Row


@dataclass(frozen=True, slots=True)
class NewestJob:
    """The newest completed job of a source. `kept`: its items have not been deleted since."""

    id: int
    key: str
    params: dict[str, Any]
    kept: bool


class LedgerStore:
    """Queries on the items behind vectors, within the caller's transaction."""

    def __init__(self, tx: Connection) -> None:
        self._tx = tx

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
