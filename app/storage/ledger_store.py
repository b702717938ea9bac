"""The ledger: what the vectors of a collection were made of, as its jobs keep it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, text

from app.domain.results import Item
from app.storage.item_store import Row
from app.storage.paging import ROWS


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

    def given(self, job_id: int, after: int) -> list[Item]:
        """A page of the items of a job that got a vector: those after seq `after`."""
        rows = self._tx.execute(_GIVEN, {"job_id": job_id, "after": after, "most": ROWS})
        return [Item(row.seq, row.key, row.payload) for row in rows]

    def items_of(self, collection_id: int, after: tuple[str, int]) -> list[Row]:
        """A page of (key, payload as JSON) of items with vectors, by key: those after the vector
        of this key and piece."""
        values = {"id": collection_id, "key": after[0], "piece": after[1], "most": ROWS}
        rows = self._tx.execute(_ITEMS_OF, values)
        return [(row.key, orjson.dumps(row.payload)) for row in rows]

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
    WHERE i.job_id = :job_id AND i.seq > :after ORDER BY i.seq LIMIT :most
""")

_ITEMS_OF = text("""
    SELECT e.key, i.payload FROM embeddings e
    JOIN items i ON i.job_id = e.job_id AND i.seq = e.seq
    WHERE e.collection_id = :id AND e.piece = 0 AND (e.key, e.piece) > (:key, :piece)
    ORDER BY e.key, e.piece LIMIT :most
""")

_LEDGER = text("""
    SELECT count(*) AS items, count(*) FILTER (WHERE i.seq IS NULL) AS without_text,
        coalesce(sum(hashtextextended(e.key || encode(e.content_hash, 'hex'), 0)::numeric), 0)
            AS checksum,
        (SELECT params FROM jobs WHERE id = max(e.job_id)) AS params
    FROM embeddings e LEFT JOIN items i ON i.job_id = e.job_id AND i.seq = e.seq
    WHERE e.collection_id = :id AND e.piece = 0
""")
