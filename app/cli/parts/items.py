"""Items of a file for submission: identified by its bytes and by how they are read."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from app.domain.cleaning import JSON
from app.domain.fingerprint import canonical, fingerprint
from app.errors import BadSource
from app.storage.item_store import Row
from app.storage.sources.base import ReadOptions
from app.storage.sources.faults import named
from app.storage.sources.opening import opened
from app.storage.sources.reading import Report, read
from app.storage.sources.registry import choose
from app.storage.sources.spooling import file_hash, spooled

STDIN = "standard input"
_TOLD_EVERY = 1000

Told = Callable[[int], object]


class FileItems:
    """Implements `services.submission.Items`. `hashing` is told bytes, `loading` records."""

    def __init__(
        self, path: Path, options: ReadOptions, shown_as: str, hashing: Told, loading: Told
    ) -> None:
        self._path = path
        self._options = options
        self._shown_as = shown_as
        self._hashing = hashing
        self._loading = loading
        self._reading = read(path, options, shown_as)
        self._hash: bytes | None = None
        self._stamp: tuple[int, int] | None = None

    def content_hash(self) -> bytes:
        """16 bytes for the content, the fields chosen, the format and the strictness."""
        if self._hash is None:
            options = self._options
            with opened(self._path, self._shown_as) as file:
                source = choose(self._shown_as, file.head(), options.format)
            self._stamp = self._now()
            how: dict[str, JSON] = {
                "format": source.name,
                "id_field": options.id_field,
                "text_field": options.text_field,
                "delimiter": options.delimiter,
                "lenient": options.lenient,
            }
            if options.fields:  # Left out where there are none: jobs of before keep their hash.
                how["fields"] = dict(options.fields)
            content = file_hash(self._path, self._hashing)
            self._hash = fingerprint("file", content, canonical(how))
        return self._hash

    def rows(self) -> Iterator[Row]:
        """(key, payload as JSON bytes). BadSource: bad lines, or the file changed meanwhile."""
        dumps = orjson.dumps
        for count, record in enumerate(self._reading, start=1):
            yield record.key, dumps(record.payload)
            if count % _TOLD_EVERY == 0:
                self._loading(count)
        if self._stamp is not None and self._now() != self._stamp:
            raise BadSource(f"{self._shown_as} was changed while it was read; submit it again")

    def skipped(self) -> int:
        """Bad lines that were passed over."""
        return self._reading.report.bad

    @property
    def report(self) -> Report:
        """What the reading saw."""
        return self._reading.report

    def _now(self) -> tuple[int, int]:
        with named(self._shown_as):
            found = self._path.stat()
        return found.st_size, found.st_mtime_ns


@contextmanager
def on_disk(file: str, data: Path) -> Iterator[tuple[Path, str]]:
    """`file` as a path and its name for messages; `-` is copied to a file that is removed again."""
    if file != "-":
        yield Path(file), file
        return
    folder = data if data.is_dir() else Path(tempfile.gettempdir())
    copy = spooled(sys.stdin.buffer, folder)
    try:
        yield copy.path, STDIN
    finally:
        copy.path.unlink(missing_ok=True)
