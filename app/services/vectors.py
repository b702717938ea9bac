"""Vectors of a chunk: what is known already, what is still the newest, and what is left over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from sqlalchemy import Connection

from app import errors
from app.domain.jobs import Job
from app.domain.results import ItemResult, Status
from app.kinds.base import Unit
from app.storage import vector_store
from app.storage.vector_store import Collection, Embedding, Vectors, VectorStore

SUPERSEDED = "superseded"
"""Code of an item whose text a later job has anew: what was embedded here was not written."""


@dataclass(frozen=True, slots=True)
class Known:
    """What has a vector already, by item key and piece; `pieces` counts those of an item's text."""

    collection: Collection | None = None
    rows: Mapping[tuple[str, int], vector_store.Known] = field(default_factory=dict)
    stored: Mapping[str, int] = field(default_factory=dict)
    pieces: Mapping[str, int] = field(default_factory=dict)

    def sorted_out(self, units: Sequence[Unit]) -> tuple[list[Unit], list[int]]:
        """Units that need a call, and the seqs of items whose every piece is there unchanged.

        Of an item some of whose pieces are there, the last of the others brings its result.
        """
        left = [unit for unit in units if not self._is_there(unit)]
        last = {unit.item.seq: unit.piece for unit in left}
        same = [u.item.seq for u in units if u.last and u.item.seq not in last]
        return [replace(u, last=last[u.item.seq] == u.piece) for u in left], same

    def beyond(self, units: Sequence[Unit]) -> dict[str, int]:
        """Items among `units` of which more pieces are stored than their text has now."""
        return {
            u.item.key: self.pieces[u.item.key]
            for u in units
            if u.last and self.stored.get(u.item.key, 0) > self.pieces[u.item.key]
        }

    def _is_there(self, unit: Unit) -> bool:
        there = self.rows.get((unit.item.key, unit.piece))
        return there is not None and there.content_hash == unit.content_hash


def known_of(tx: Connection, job: Job, name: str | None, units: Sequence[Unit]) -> Known:
    """What the collection called `name` has of `units`; items that another source gave are adopted.

    Raises CollectionConflict where the collection is another model's by now.
    """
    store = VectorStore(tx)
    collection = None if name is None else store.find(name)
    if collection is None:
        return Known()
    if collection.model != job.model:
        raise errors.CollectionConflict(
            f"collection {name!r} holds vectors of model {collection.model!r} now, "
            f"and this job makes those of {job.model!r}"
        )
    rows = store.known(collection.id, list({unit.item.key for unit in units}))
    strangers = sorted({key for (key, _), row in rows.items() if row.source != job.source})
    if job.source is not None and strangers:
        store.adopt(collection.id, strangers, job.source)
    stored = Counter(key for key, _ in rows)
    return Known(collection, rows, stored, Counter(unit.item.key for unit in units))


def write(
    tx: Connection,
    collection: Collection,
    job: Job,
    units: Sequence[Unit],
    vectors: Vectors,
    known: Known,
) -> tuple[Collection, set[int]]:
    """Store the vectors of `units`; the collection, its dimension known, and the seqs of items that
    a later job has anew, whose vectors are that job's to write. Raises BadReply: wrong dimension.
    """
    store = VectorStore(tx)
    found = int(vectors.shape[1])
    if collection.dimension is None:
        collection = replace(collection, dimension=store.fix_dimension(collection.id, found))
    if collection.dimension != found:
        raise errors.BadReply(
            f"a vector of {found} numbers, but collection {collection.name!r} holds "
            f"{collection.dimension}"
        )
    store.share(collection.id)
    late = store.superseded(collection.name, job.id, list({unit.item.key for unit in units}))
    kept = [n for n, unit in enumerate(units) if unit.item.key not in late]
    rows = [
        Embedding(u.item.key, u.content_hash, u.item.seq, u.piece, u.begins, u.ends)
        for u in (units[n] for n in kept)
    ]
    numbers = np.asarray(vectors, dtype=np.float32)[kept]
    store.write(collection.id, job.id, rows, numbers, job.source)
    beyond = known.beyond([units[n] for n in kept])
    if beyond:
        store.drop_beyond(collection.id, beyond)
    return collection, {unit.item.seq for unit in units if unit.item.key in late}


def superseded(result: ItemResult) -> ItemResult:
    """The result of an item whose text a later job has anew."""
    return replace(result, status=Status.UNCHANGED, code=SUPERSEDED)
