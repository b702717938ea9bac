"""Searching a collection: the query becomes a vector the way its items did."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.inference import EmbedRequest
from app.domain.routing import EndpointHealth, chosen
from app.errors import NotFound, Unavailable
from app.inference.wires import Wires
from app.services.pools import Pools
from app.storage.database import Database
from app.storage.vector_store import VectorStore


@dataclass(frozen=True, slots=True)
class Hit:
    """`score` is the cosine: 1 is the same direction. `text` is None where the item is gone."""

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
        pool = self._pools.for_model(collection.model)
        endpoint = chosen(collection.model, pool.endpoints, dict[str, EndpointHealth](), {})
        if endpoint is None:
            raise Unavailable(f"no endpoint serves {collection.model!r} now")
        request = EmbedRequest(collection.model, (query,))
        reply = self._wires.of(endpoint).embed(
            request, deadline_s=self._timeout_s, dim=collection.dimension
        )
        with self._database.transaction() as tx:
            rows = VectorStore(tx).nearest(collection.id, reply.vectors[0], most)
        return [
            Hit(row["key"], float(row["score"]), (row["payload"] or {}).get("text")) for row in rows
        ]
