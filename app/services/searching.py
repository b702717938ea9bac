"""Searching a collection: the query becomes a vector the way its items did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from app import clock
from app.domain.inference import EmbedReply, EmbedRequest
from app.domain.requests import NewRequest
from app.errors import CollectionConflict, NotFound, Unavailable
from app.services.people.tickets import Answered
from app.services.pools import Pools, pool_for
from app.storage.database import Database
from app.storage.vector_store import Collection, Vectors, VectorStore

_FURTHEST = 4096

Ask = Callable[[NewRequest, EmbedRequest], Answered]


@dataclass(frozen=True, slots=True)
class Hit:
    """`score` is the cosine: 1 is the same direction. `text` is that of the item, or of its nearest
    piece; None where the item is gone."""

    key: str
    score: float
    text: str | None


class Searching:
    """The use case behind `giveway search`."""

    def __init__(self, database: Database, pools: Pools, ask: Ask) -> None:
        self._database = database
        self._pools = pools
        self._ask = ask

    def search(self, collection_name: str, query: str, most: int) -> list[Hit]:
        """The `most` nearest items. NotFound: no such collection.

        Somebody waits for it, so the query goes where a person's request goes.
        """
        with self._database.transaction() as tx:
            collection = VectorStore(tx).find(collection_name)
            if collection is None:
                known = ", ".join(c["name"] for c in VectorStore(tx).listed()) or "none"
                raise NotFound(f"no collection {collection_name!r}; known: {known}")
        pool = pool_for(self._database, self._pools, collection.model)
        new = NewRequest(uuid4(), pool.name, "embed", collection.model, clock.now())
        answered = self._ask(new, EmbedRequest(collection.model, (query,)))
        reply = answered.reply
        assert isinstance(reply, EmbedReply)
        if answered.choice.model != collection.model:
            raise Unavailable(
                f"only {answered.choice.model!r} answers now, but the vectors of {collection_name} "
                f"are of {collection.model!r}"
            )
        if reply.vectors.shape[1] != collection.dimension:
            raise CollectionConflict(
                f"endpoint {answered.endpoint!r} gives {reply.vectors.shape[1]} numbers, but the "
                f"vectors of {collection_name} have {collection.dimension}"
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
