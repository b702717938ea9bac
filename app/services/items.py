"""Items of a source for submission: identified by their content and by how they are read."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from app.domain.cleaning import JSON
from app.domain.fingerprint import canonical, fingerprint
from app.domain.results import Item
from app.errors import BadSource
from app.storage.item_store import Row
from app.storage.sources.base import Asked, Place, ReadOptions, Record
from app.storage.sources.faults import named
from app.storage.sources.file_origin import FilePlace
from app.storage.sources.origins import STDIN, is_stream, place_of, resolved
from app.storage.sources.reading import Judge, Reading, Report
from app.storage.sources.spooling import RowSpool, file_hash, spooled

SHOWN_STDIN = "standard input"
_NAMELESS = ("/dev/", "/proc/")
"""Where the names of pipes that have none are: another one next time."""
_TOLD_EVERY = 1000

Told = Callable[[int], object]


def untold(done: int) -> None:
    """Nobody watches."""


class SourceItems:
    """Implements `services.submission.Items`.

    A file is known by its bytes, and read again while it is loaded. Any other place is read once,
    into a spool in `folder`: what is loaded is then exactly what the hash stands for, however the
    table changes meanwhile. `reading` is told bytes of a file, records of another place;
    `loading` is told records. `close` removes the spool.
    """

    def __init__(
        self,
        place: Place,
        options: ReadOptions,
        folder: Path | None = None,
        reading: Told = untold,
        loading: Told = untold,
    ) -> None:
        self.place = place
        self.options = place.fitted(options)
        self._folder = folder
        self._told_reading = reading
        self._told_loading = loading
        self._reading = Reading(place, self.options)
        self._hash: bytes | None = None
        self._stamp: tuple[int, int] | None = None
        self._spool: RowSpool | None = None

    def tell(self, reading: Told, loading: Told) -> None:
        """Tell these from now on how far it is."""
        self._told_reading, self._told_loading = reading, loading

    def refuse(self, judge: Judge | None) -> None:
        """From now on a record is a bad line where `judge` says why its payload cannot be an item;
        a spool that is there stays as it is."""
        self._reading.judge = judge

    def content_hash(self) -> bytes:
        """16 bytes for the content, the fields chosen, the format and the strictness."""
        if self._hash is None:
            place = self.place
            if isinstance(place, FilePlace):
                form = place.form(self.options)
                self._stamp = self._now(place.path)
                content = file_hash(place.path, self._told_reading)
            else:
                form = place.identity()[0]
                content = self._spooled().content_hash
            self._hash = fingerprint("file", content, canonical(self._how(form)))
        return self._hash

    def rows(self) -> Iterator[Row]:
        """(key, payload as JSON bytes). BadSource: bad lines, or the file changed meanwhile."""
        rows = self._from_file() if isinstance(self.place, FilePlace) else self._spooled().rows()
        for count, row in enumerate(rows, start=1):
            yield row
            if count % _TOLD_EVERY == 0:
                self._told_loading(count)

    def records(self) -> Iterator[Record]:
        """The records themselves, read anew: for looking at them, not for loading."""
        for count, record in enumerate(self._reading, start=1):
            yield record
            if count % _TOLD_EVERY == 0:
                self._told_loading(count)

    def items(self) -> Iterator[Item]:
        """The same as items, numbered from 1."""
        for seq, record in enumerate(self.records(), start=1):
            yield Item(seq, record.key, record.payload)

    def skipped(self) -> int:
        """Bad lines that were passed over."""
        return self._reading.report.bad

    @property
    def report(self) -> Report:
        """What the reading saw."""
        return self._reading.report

    def identity(self) -> bytes:
        """16 bytes for where the items come from and which of them were asked for, whatever is in
        them now."""
        options = self.options
        which = (options.id_field or "", options.where or "")
        return fingerprint("source", *self.place.identity(), *which)

    @property
    def whole(self) -> bool:
        """Whether what the source gives no more is gone from it: false for a file, a limit."""
        return self.place.whole and self.options.limit is None

    def size_bytes(self) -> int | None:
        """Bytes that the hash will read; None: not known."""
        path = self.place.path
        return path.stat().st_size if path is not None and path.is_file() else None

    def close(self) -> None:
        """Remove what was put on disk."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def _how(self, form: str) -> dict[str, JSON]:
        options = self.options
        how: dict[str, JSON] = {
            "format": form,
            "id_field": options.id_field,
            "text_field": options.text_field,
            "delimiter": options.delimiter,
            "lenient": options.lenient,
        }
        # Left out where there are none: jobs of before keep their hash.
        if options.fields:
            how["fields"] = dict(options.fields)
        if options.encoding is not None:
            how["encoding"] = options.encoding
        if options.where is not None:
            how["where"] = options.where
        if options.limit is not None:
            how["limit"] = options.limit
        return how

    def _from_file(self) -> Iterator[Row]:
        dumps = orjson.dumps
        for record in self._reading:
            yield record.key, dumps(record.payload)
        path = self.place.path
        if self._stamp is not None and path is not None and self._now(path) != self._stamp:
            raise BadSource(f"{self.place.shown_as} was changed while it was read; submit it again")

    def _spooled(self) -> RowSpool:
        if self._spool is None:
            spool = RowSpool(self._folder or Path(tempfile.gettempdir()))
            try:
                dumps = orjson.dumps
                rows = ((record.key, dumps(record.payload)) for record in self._reading)
                spool.fill(rows, self._told_reading)
            except BaseException:
                spool.close()
                raise
            self._spool = spool
        return self._spool

    def _now(self, path: Path) -> tuple[int, int]:
        with named(self.place.shown_as):
            found = path.stat()
        return found.st_size, found.st_mtime_ns


@contextmanager
def opened_items(
    asked: Asked,
    options: ReadOptions,
    folder: Path | None = None,
    reading: Told = untold,
    loading: Told = untold,
) -> Iterator[SourceItems]:
    """The items of `asked`. What can be read only once (`-`, which is standard input, a pipe) is
    copied to a file that is removed again.

    `folder` is where such copies go; None: the machine's own place for them.
    """
    place = place_of(asked)
    uri = resolved(asked.uri)
    if is_stream(uri):
        place.check(options)  # Before somebody waits for what is coming.
    with _on_disk(uri, folder) as copy:
        if copy is not None:
            place = FilePlace(copy, SHOWN_STDIN if uri == STDIN else uri, known_as=_known_as(uri))
        items = SourceItems(place, options, folder, reading, loading)
        try:
            yield items
        finally:
            items.close()


@contextmanager
def _on_disk(uri: str, folder: Path | None) -> Iterator[Path | None]:
    if not is_stream(uri):
        yield None
        return
    there = folder if folder is not None and folder.is_dir() else Path(tempfile.gettempdir())
    if uri == STDIN:
        copy = spooled(sys.stdin.buffer, there)
    else:
        with named(uri), Path(uri).open("rb") as stream:
            copy = spooled(stream, there)
    try:
        yield copy.path
    finally:
        copy.path.unlink(missing_ok=True)


def _known_as(uri: str) -> str:
    path = Path(uri).absolute()
    return STDIN if uri == STDIN or str(path).startswith(_NAMELESS) else str(path)
