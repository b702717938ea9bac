"""Collections of vectors from Python: the verbs of `giveway embeddings` and `giveway export`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from app.client.jobs import JobHandle
from app.client.sources import Source
from app.services.collections import Verified
from app.services.exporting import Exported
from app.storage.collection_store import CollectionStats
from app.storage.sinks.vector_table import Target, Written
from app.storage.sources.origins import resolved
from app.wiring import Wiring
from app.worker import reaching


class Collections:
    """All collections; `Giveway.collections`. NotFound names those there are."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring

    def list(self) -> list[CollectionStats]:
        """All of them, with their figures."""
        return self._wiring.collections.stats()

    def stats(self, name: str) -> CollectionStats:
        """Figures of one: items, vectors, sizes, index."""
        return self._wiring.collections.stats(name)[0]

    def verify(self, name: str, source: Source | None = None) -> Verified:
        """Its vectors beside what was embedded, or beside what `source` gives now; `sound` where
        nothing differs."""
        if source is None:
            return self._wiring.collections.verify(name)
        with self._wiring.launching.items(source.template()) as items:
            return self._wiring.collections.verify(name, items.items())

    def reembed(self, name: str, model: str, into: str | None = None) -> JobHandle:
        """Embed it again with another model, into a new one beside it; then `swap`."""
        request, items = self._wiring.collections.reembedding(name, model, into)
        submitted = self._wiring.submission.submit(request, items)
        job = submitted.job
        self._wiring.collections.mark_replacement(str(job.params["collection"]), name)
        reaching.ring(self._wiring, job.pool)
        return JobHandle(self._wiring, job, created=submitted.created)

    def swap(self, name: str, new: str | None = None, *, force: bool = False) -> tuple[str, str]:
        """Let `new` (None: what `reembed` made) be called `name`; what it was called, and what the
        old one is called now. Conflict: it lacks items of the old one."""
        return self._wiring.collections.swap(name, new, force=force)

    def index(self, name: str) -> CollectionStats:
        """Build its HNSW index now; searches and writes go on meanwhile."""
        self._wiring.collections.build_index(name)
        return self.stats(name)

    def drop_index(self, name: str) -> CollectionStats:
        """Drop its index; searches then look at each vector."""
        self._wiring.collections.drop_index(self.stats(name).id)
        return self.stats(name)

    def delete(self, name: str) -> int:
        """Remove it with its vectors; how many there were."""
        return self._wiring.collections.delete(name)

    def vectors(self, name: str) -> Iterator[Mapping[str, Any]]:
        """key, piece, hash, model and vector (32-bit floats) of each, by key, streamed."""
        return self._wiring.exporting.vectors(name)

    def export(self, name: str, output: str | Path, format: str | None = None) -> Exported:  # noqa: A002
        """Its vectors into a file, JSONL, CSV or Parquet by its ending."""
        return self._wiring.exporting.collection(name, str(output), format)

    def export_to(
        self,
        name: str,
        url: str,
        table: str,
        *,
        id_column: str = "id",
        vector_column: str = "embedding",
        piece_column: str | None = None,
        create: bool = False,
        only_existing: bool = False,
    ) -> Written:
        """Its vectors into a table with pgvector of your own; `url` may be env:NAME."""
        target = Target(
            resolved(url), table, id_column, vector_column, piece_column, create, only_existing
        )
        return self._wiring.exporting.into_table(name, target)
