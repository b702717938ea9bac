"""Spooling: standard input as a file, and the hash by which the content of a file is known."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final

from app.storage.sources.faults import named

HASH_BYTES: Final = 16
_PIECE_BYTES: Final = 1 << 20


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
