"""Opening: any file as lines that can be decoded one by one, whatever encoding or compression it
came in."""

from __future__ import annotations

import codecs
import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

from app.errors import BadSource
from app.storage.sources.encodings import UTF_8, by_mark, keeps_lines
from app.storage.sources.faults import named

CHUNK_BYTES: Final = 256 * 1024
"""About how much of the file is held as lines at one time."""

_GZIP: Final = b"\x1f\x8b"
# The longest mark first: that of UTF-32 LE begins with that of UTF-16 LE.
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32 LE"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32 BE"),
    (codecs.BOM_UTF8, "utf-8", "UTF-8 with BOM"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16 LE"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16 BE"),
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some whole lines, each with its line end. `offset` is where the first begins, in bytes."""

    lines: list[bytes]
    offset: int


@dataclass(frozen=True, slots=True)
class Opened:
    """A file open for reading as lines.

    `name` is what messages call it, `encoding` what people call that of the file. A line is to be
    decoded by `codec`, which is UTF-8 unless another was given, with `errors`: text that came as
    UTF-16 may hold lone surrogates, which are no wrong bytes and are cleaned later.
    `start` is the length of the byte order mark.
    """

    stream: io.BufferedReader
    name: str
    encoding: str
    compressed: bool
    errors: str
    start: int
    codec: str = UTF_8

    def head(self) -> bytes:
        """The beginning of the file, some kilobytes; nothing is consumed."""
        with named(self.name):
            return self.stream.peek(io.DEFAULT_BUFFER_SIZE)

    def chunks(self) -> Iterator[Chunk]:
        """All lines, in chunks of about `CHUNK_BYTES`. A file that is cut off is a BadSource."""
        offset = self.start
        while True:
            with named(self.name):
                lines = self.stream.readlines(CHUNK_BYTES)
            if not lines:
                return
            yield Chunk(lines, offset)
            offset += sum(map(len, lines))


@contextmanager
def opened(
    path: Path, shown_as: str | None = None, encoding: str | None = None
) -> Iterator[Opened]:
    """`path` as lines: gzip told from its first bytes, and so is the encoding where none is given.

    `shown_as` names it in messages (None: the path). `encoding` is one that `encoding_named` gave.
    Offsets count bytes after decompression. Missing, unreadable, a folder, or marked as something
    else than `encoding`: BadSource.
    """
    name = shown_as or str(path)
    with named(name):
        file = path.open("rb")
    with file:
        with named(name):
            result = _told(file, name, encoding)
        yield result


def _told(file: io.BufferedReader, name: str, given: str | None) -> Opened:
    stream = file
    compressed = file.peek(2)[:2] == _GZIP
    if compressed:
        stream = io.BufferedReader(cast("io.RawIOBase", gzip.GzipFile(fileobj=file)), 1 << 16)
    head = stream.peek(4)[:4]
    marked = next((found for found in _MARKS if head.startswith(found[0])), None)
    mark, codec, encoding = marked or _without_mark(head)
    if given is not None:
        codec = given if marked is None else by_mark(given, codec, name)
        encoding = encoding if marked else given
    stream.read(len(mark))
    errors = "strict"
    if not keeps_lines(codec):
        errors = "surrogatepass"
        stream = io.BufferedReader(_AsUtf8(stream, codec, name), 1 << 16)
        codec = UTF_8
    return Opened(stream, name, encoding, compressed, errors, len(mark), codec)


def _without_mark(head: bytes) -> tuple[bytes, str, str]:
    """The encoding of a file that says none. Where its first two characters are ASCII, the place
    of their zero bytes tells UTF-16 (as RFC 4627, section 3, has it for JSON)."""
    if len(head) == 4 and head[0] and head[2] and not (head[1] or head[3]):
        return b"", "utf-16-le", "UTF-16 LE"
    if len(head) == 4 and head[1] and head[3] and not (head[0] or head[2]):
        return b"", "utf-16-be", "UTF-16 BE"
    return b"", "utf-8", "UTF-8"


class _AsUtf8(io.RawIOBase):
    """A stream in an encoding whose line ends are not those of ASCII, read as UTF-8."""

    def __init__(self, inner: BinaryIO | io.BufferedReader, codec: str, name: str) -> None:
        self._inner = inner
        self._codec = codec
        self._decoder = codecs.getincrementaldecoder(codec)("surrogatepass")
        self._name = name
        self._ready = memoryview(b"")
        self._read_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        target = memoryview(cast("bytearray", buffer))
        while not self._ready:
            data = self._inner.read(1 << 16)
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                at = f"byte {self._read_bytes + error.start}"
                raise BadSource(f"{self._name}: is cut off or not {self._codec}: {at}") from error
            self._read_bytes += len(data)
            if not data and not text:
                return 0
            self._ready = memoryview(text.encode("utf-8", "surrogatepass"))
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count
