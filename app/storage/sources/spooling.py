"""Spooling: a stream or rows as a file, and the hash by which the content is known."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final

from app.storage.sources.faults import named

HASH_BYTES: Final = 16
_PIECE_BYTES: Final = 1 << 20
_TOLD_EVERY: Final = 1000
_LENGTHS: Final = struct.Struct("<II")
_SUM_BYTES: Final = HASH_BYTES + 8


@dataclass(frozen=True, slots=True)
class Spooled:
    """A stream that became a file: where it is, its hash (as `file_hash` gives it), its length.

    Whoever asked for it removes `path`.
    """

    path: Path
    content_hash: bytes
    size_bytes: int


def spooled(stream: BinaryIO, folder: Path) -> Spooled:
    """Copy `stream` to its end into a new file in `folder`, readable by nobody else.

    If the copying fails, the file is removed again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    running = blake2b(digest_size=HASH_BYTES)
    size_bytes = 0
    with tempfile.NamedTemporaryFile(dir=folder, prefix="stdin-", delete=False) as file:
        path = Path(file.name)
        try:
            while piece := stream.read(_PIECE_BYTES):
                running.update(piece)
                size_bytes += file.write(piece)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    return Spooled(path, running.digest(), size_bytes)


def file_hash(path: Path, progress: Callable[[int], object] | None = None) -> bytes:
    """BLAKE2b-128 of the bytes of `path`. `progress` is told the bytes read so far, each megabyte.

    Raises BadSource where the file cannot be read.
    """
    running = blake2b(digest_size=HASH_BYTES)
    done_bytes = 0
    with named(str(path)), path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            running.update(piece)
            done_bytes += len(piece)
            if progress is not None:
                progress(done_bytes)
    return running.digest()


class RowSpool:
    """Rows (key, payload as JSON bytes) in a file that has no name and goes with its process.

    Its hash is the sum of the rows' own: a query gives its rows in any order, and the same rows in
    another order are the same content.
    """

    def __init__(self, folder: Path) -> None:
        folder = folder if folder.is_dir() else Path(tempfile.gettempdir())
        self._file = tempfile.TemporaryFile(  # noqa: SIM115 - `close` ends it
            dir=folder, prefix="spool-", buffering=_PIECE_BYTES
        )
        self._sum = 0
        self.count = 0

    @property
    def content_hash(self) -> bytes:
        """16 bytes for the rows, whatever their order."""
        whole = self._sum.to_bytes(_SUM_BYTES, "big")
        return blake2b(whole, digest_size=HASH_BYTES).digest()

    def fill(
        self, rows: Iterable[tuple[str, bytes]], progress: Callable[[int], object] | None = None
    ) -> None:
        """Take all of `rows`; `progress` is told how many there are so far."""
        pack, write, number = _LENGTHS.pack, self._file.write, int.from_bytes
        for key, payload in rows:
            name = key.encode()
            # The lengths stand first: no other key and payload make the same bytes.
            row = b"".join((pack(len(name), len(payload)), name, payload))
            self._sum += number(blake2b(row, digest_size=HASH_BYTES).digest(), "big")
            write(row)
            self.count += 1
            if progress is not None and self.count % _TOLD_EVERY == 0:
                progress(self.count)

    def rows(self) -> Iterator[tuple[str, bytes]]:
        """The rows again, from the first."""
        self._file.seek(0)
        read, unpack, size = self._file.read, _LENGTHS.unpack, _LENGTHS.size
        while lengths := read(size):
            of_key, of_payload = unpack(lengths)
            yield read(of_key).decode(), read(of_payload)

    def close(self) -> None:
        """Give the file up."""
        self._file.close()
