"""Collections of vectors as a whole: figures, what is wrong in them, another model, the swap."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from sqlalchemy import Connection, text

from app import clock
from app.domain.fingerprint import fingerprint
from app.domain.results import Item
from app.errors import Conflict, NotFound, StateConflict, UsageError
from app.kinds.base import checked
from app.kinds.registry import kind as kind_named
from app.services import made
from app.services.submission import JobRequest
from app.storage.collection_store import CollectionStats, CollectionStore
from app.storage.database import Database
from app.storage.item_store import Row
from app.storage.ledger_store import LedgerStore
from app.storage.vector_index import INDEXING, build_index, drop_index
from app.storage.vector_store import Collection, VectorStore
from app.storage.verify_store import Faulty, VerifyStore

_SHOWN = 20
_AT_ONCE = 2000
_NAME_LENGTH = 63
_INDEXING_S = 20.0
"""How long a person's command waits for whoever builds or drops an index."""
_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found. `compared` counts what was laid beside the vectors: items of the source, or
    of the newest job of each source. `faults` has a count and the first keys, by fault."""

    collection: str
    compared: int
    against: str
    vectors: int
    faults: dict[str, tuple[int, list[str]]] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        """Nothing was found."""
        return not self.faults


class Collections:
    """The use cases behind `giveway embeddings`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def stats(self, name: str | None = None) -> list[CollectionStats]:
        """Figures of one collection, or of all. NotFound: there is none of that name."""
        with self._database.transaction() as tx:
            found = CollectionStore(tx).stats(name)
        if name is not None and not found:
            raise self._not_found(name)
        return found

    def verify(
        self,
        name: str,
        items: Iterable[Item] | None = None,
        params: dict[str, Any] | None = None,
    ) -> Verified:
        """Compare vectors with what was embedded: hashes, pieces, lengths, what is gone or missing.

        `items` are what the source gives now; None: the newest job of each source, as the ledger
        has it. `params` are the embedding's parameters where the newest job's are not meant.
        """
        collection = self._found(name)
        # No transaction around it: the source may be slow, and what is compared stands on disk.
        with self._database.session() as own:
            jobs = LedgerStore(own).newest_jobs(collection.id)
            given: Iterable[tuple[Iterator[Item], dict[str, Any]]]
            if items is None:
                gone = next((job.key for job in jobs if not job.kept), None)
                if gone is not None:
                    raise StateConflict(
                        f"the items of job {gone!r}, the newest of its source, are no longer kept "
                        "([retention] keep_jobs_days); compare with the source itself: giveway "
                        f"embeddings verify {name} FILE, or --source URL"
                    )
                given = ((made.given(self._database, job.id), job.params) for job in jobs)
                against = f"the ledger of {len(jobs)} " + ("job" if len(jobs) == 1 else "jobs")
            else:
                how = params or (jobs[0].params if jobs else None)
                if how is None:
                    raise UsageError(
                        f"collection {name!r} has no completed job whose parameters say how its "
                        "texts are embedded; submit the source again instead"
                    )
                given, against = [(iter(items), how)], "the source"
            with VerifyStore(own).beside(_as_embedded(given)) as comparison:
                faults = comparison.compared(collection.id, _SHOWN)
                for one in comparison.faulty(collection.id, _AT_ONCE):
                    faults[one.fault] = _added(faults.get(one.fault), one)
                count = comparison.staged
            vectors = CollectionStore(own).stats(name)[0].vectors
        return Verified(name, count, against, vectors, faults)

    def reembedding(
        self, name: str, model: str, into: str | None = None
    ) -> tuple[JobRequest, CollectionItems]:
        """The job that makes the vectors of `name` anew with `model`, in a collection beside it.

        Texts come from the ledger. Raises NotFound, UsageError where texts are gone or the model is
        the one it has.
        """
        collection = self._found(name)
        if model == collection.model:
            raise UsageError(f"collection {name!r} holds vectors of model {model!r} already")
        with self._database.transaction() as tx:
            tx.execute(text("SET LOCAL statement_timeout = 0"))
            ledger = LedgerStore(tx).ledger(collection.id)
        if not ledger["items"]:
            raise UsageError(f"collection {name!r} holds nothing that could be embedded again")
        if ledger["without_text"]:
            raise UsageError(
                f"the texts of {ledger['without_text']:,} of {ledger['items']:,} items of "
                f"{name!r} are no longer kept; submit their source with --model {model} and "
                f"--collection {into or beside(name, model)}, then: giveway embeddings swap {name}"
            )
        target = into or beside(name, model)
        params = {**ledger["params"], "model": model, "collection": target}
        content = fingerprint("collection", name, str(ledger["checksum"]), str(ledger["items"]))
        items = CollectionItems(self._database, collection.id, content)
        request = JobRequest(
            "embed", params, key=f"reembed-{target}-{content.hex()[:12]}", name=f"reembed {name}"
        )
        return request, items

    def mark_replacement(self, name: str, replaces: str) -> None:
        """Note that the collection `name` was made to replace another."""
        with self._database.transaction() as tx:
            CollectionStore(tx).mark_replacement(name, replaces)

    def swap(self, name: str, new: str | None = None, *, force: bool = False) -> tuple[str, str]:
        """Let `new` be called `name` from now on; (the new one's old name, the old one's new name).

        `new` None: the one that `reembed` made. Raises Conflict where the new one lacks items of
        the old one (unless `force`), or has jobs still at work.
        """
        old = self._found(name)
        with self._database.transaction() as tx:
            tx.execute(text("SET LOCAL statement_timeout = 0"))
            store = CollectionStore(tx)
            all_of_them = {one.name: one for one in store.stats()}
            replacement = new or next(
                (one.name for one in all_of_them.values() if one.replaces == name), None
            )
            if replacement is None:
                raise NotFound(
                    f"nothing was made to replace {name!r}; first: giveway embeddings reembed "
                    f"{name} --model MODEL, or name the collection with --with"
                )
            there = all_of_them.get(replacement)
            if there is None:
                raise self._not_found(replacement)
            lacking, keys = store.lacking(old.id, there.id, 5)
            if (lacking or there.coming) and not force:
                raise Conflict(
                    f"{replacement!r} lacks {lacking:,} items of {name!r} ({', '.join(keys)}) and "
                    f"{there.coming:,} are still coming; wait for its job, or swap with --force"
                )
            retired = beside(name, old.model)
            if retired in all_of_them:
                raise Conflict(
                    f"there is a collection {retired!r} already, which is what {name!r} would be "
                    f"called; remove it with: giveway embeddings delete {retired} --yes"
                )
            store.swap(name, replacement, retired)
        return replacement, retired

    def delete(self, name: str) -> int:
        """Remove a collection; how many vectors it had."""
        found = self._found(name)
        self.drop_index(found.id)
        with self._database.transaction() as tx:
            tx.execute(text("SET LOCAL statement_timeout = 0"))
            return CollectionStore(tx).delete(found.id)

    def build_index(self, name: str) -> None:
        """Build the collection's index while others read and write. UsageError: it has no vectors.

        A half-built one, of a server that was stopped meanwhile, is dropped first.
        """
        found = self._found(name)
        if found.dimension is None:
            raise UsageError(f"collection {name!r} holds no vectors yet")
        with self._indexing() as own:
            if not CollectionStore(own).stats(name)[0].indexed:
                own.execute(drop_index(found.id))
            own.execute(build_index(found.id, found.dimension))

    def drop_index(self, collection_id: int) -> None:
        """Drop the collection's index; nothing happens where there is none."""
        with self._indexing() as own:
            own.execute(drop_index(collection_id))

    @contextmanager
    def _indexing(self) -> Iterator[Connection]:
        """A session that alone builds and drops indexes. Conflict: another goes on doing so."""
        give_up_at = clock.monotonic_s() + _INDEXING_S
        while True:
            with self._database.guarded(INDEXING) as own:
                if own is not None:
                    yield own
                    return
            if clock.monotonic_s() > give_up_at:
                raise Conflict(
                    "an index is being built, which takes minutes; `giveway doctor` says what it "
                    "waits for, if it waits; try again after it"
                )
            threading.Event().wait(_PAUSE_S)

    def _found(self, name: str) -> Collection:
        with self._database.transaction() as tx:
            found = VectorStore(tx).find(name)
        if found is None:
            raise self._not_found(name)
        return found

    def _not_found(self, name: str) -> NotFound:
        with self._database.transaction() as tx:
            known = ", ".join(c["name"] for c in VectorStore(tx).listed()) or "none"
        return NotFound(f"no collection {name!r}; known: {known}")


class CollectionItems:
    """The items of a collection, from the ledger: implements `submission.Items`."""

    def __init__(self, database: Database, collection_id: int, content: bytes) -> None:
        self._database = database
        self._collection_id = collection_id
        self._content = content

    def content_hash(self) -> bytes:
        """16 bytes for all of it."""
        return self._content

    def rows(self) -> Iterator[Row]:
        """(key, payload), by key, a page at a time."""
        return made.items_of(self._database, self._collection_id)

    def skipped(self) -> int:
        """None."""
        return 0


def beside(name: str, model: str) -> str:
    """What the collection `name` with vectors of `model` is called beside the one in use."""
    told = re.sub(r"[^A-Za-z0-9._-]+", "-", model).strip("-")
    return f"{name}--{told}"[:_NAME_LENGTH]


def _as_embedded(
    given: Iterable[tuple[Iterator[Item], dict[str, Any]]],
) -> Iterator[tuple[str, bytes, int]]:
    """(key, content hash, pieces) of items as their kind would embed them."""
    kind = kind_named("embed")
    for items, raw in given:
        params = checked(kind, raw)
        while batch := list(islice(items, _AT_ONCE)):
            for unit in kind.prepare(batch, params).units:
                if unit.last:
                    yield unit.item.key, unit.content_hash, unit.piece + 1


def _added(before: tuple[int, list[str]] | None, one: Faulty) -> tuple[int, list[str]]:
    count, keys = before or (0, [])
    return count + 1, [*keys, one.key][:_SHOWN]
