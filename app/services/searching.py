"""Searching a collection: the query becomes a vector the way its items did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.domain.inference import EmbedRequest
from app.domain.routing import BACKUP, PRIMARY, chosen
from app.errors import NotFound, Unavailable
from app.inference.wires import Wires
from app.services.pools import Pools, pool_for, present
from app.storage.database import Database
from app.storage.vector_store import Collection, Vectors, VectorStore

_FURTHEST = 4096


@dataclass(frozen=True, slots=True)
class Hit:
    """`score` is the cosine: 1 is the same direction. `text` is that of the item, or of its nearest
    piece; None where the item is gone."""

    key: str
    score: float
    text: str | None


class Searching:
    """The use case behind `giveway search`."""

    def __init__(self, database: Database, pools: Pools, wires: Wires, timeout_s: float) -> None:
        self._database = database
        self._pools = pools
        self._wires = wires
        self._timeout_s = timeout_s

    def search(self, collection_name: str, query: str, most: int) -> list[Hit]:
        """The `most` nearest items. NotFound: no such collection."""
        with self._database.transaction() as tx:
            collection = VectorStore(tx).find(collection_name)
            if collection is None:
                known = ", ".join(c["name"] for c in VectorStore(tx).listed()) or "none"
                raise NotFound(f"no collection {collection_name!r}; known: {known}")
        pool = pool_for(self._database, self._pools, collection.model)
        with self._database.transaction() as tx:
            pool = present(tx, pool)
        roles = (PRIMARY, BACKUP)
        choice = chosen(collection.model, pool.endpoints, pool.health, {}, roles=roles)
        if choice is None:
            raise Unavailable(f"no endpoint serves {collection.model!r} now")
        request = EmbedRequest(collection.model, (query,))
        reply = self._wires.of(choice.spec).embed(
            request, deadline_s=self._timeout_s, dim=collection.dimension
        )
        return self._best(collection, reply.vectors[0], most)

    def _best(self, collection: Collection, vector: Vectors, most: int) -> list[Hit]:
        """The nearest items, each by its nearest piece. Items may have many: it looks further."""
        looked = most
        while True:
            with self._database.transaction() as tx:
                rows = VectorStore(tx).nearest(collection, vector, looked)
            best: dict[str, Hit] = {}
            for row in rows:
                best.setdefault(row["key"], _hit(row))
            if len(best) >= most or len(rows) < looked or looked >= _FURTHEST:
                return list(best.values())[:most]
            looked = min(_FURTHEST, looked * 4)


def _hit(row: dict[str, Any]) -> Hit:
    text = (row["payload"] or {}).get("text")
    if text is not None and row["begins"] is not None:
        text = text[row["begins"] : row["ends"]]
    return Hit(row["key"], float(row["score"]), text)
