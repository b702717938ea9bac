"""Writing: whatever people name a file for goes through here. It is there as a whole or not at all,
and nothing that was there is written over unless they say so."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from app.errors import UsageError

STDOUT: Final = "-"
PAGES: Final = (".html", ".htm")
CHARTS: Final = (".png", ".svg")


def check_output(
    output: str, *, force: bool, what: str = "it", endings: Sequence[str] = ()
) -> None:
    """UsageError: `output` cannot be written, or is there already and not to be written over.

    Asked before the work whose outcome is to be written. `endings`: those that say what is written
    (none: any); `what` it is called in messages. Standard output, pipes and devices take all.
    """
    path = Path(output)
    if is_stream(path):
        return
    if endings and path.suffix.lower() not in endings:
        raise UsageError(f"{output}: {what} is a {' or '.join(endings)} file")
    with _writable(output):
        if path.is_dir():
            raise UsageError(f"{output} is a folder; name a file in it")
        if path.is_file() and not force:
            raise UsageError(f"{output} is there already; --force writes over it")
        if not path.resolve().parent.is_dir():
            raise UsageError(f"{output}: there is no such folder")
        beside = _beside(path)
        beside.touch()
        beside.unlink()


@contextmanager
def whole(output: str) -> Iterator[BinaryIO]:
    """A stream that becomes the file `output` at the end of the block; on an error nothing does.

    `-` is standard output; a pipe or device is written as it is. UsageError: it cannot be made.
    What was there is gone: `check_output` asks before.
    """
    path = Path(output)
    if output == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if is_stream(path):
        with _writable(output):
            stream = path.open("wb")
        with stream:
            yield stream
        return
    beside = _beside(path)
    with _writable(output):
        stream = beside.open("wb")
    try:
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        with _writable(output):
            beside.replace(path.resolve())
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def write_page(output: Path, page: str) -> None:
    """Write a page of HTML."""
    with whole(str(output)) as stream:
        stream.write(page.encode("utf-8", "replace"))


def made_folder(folder: Path) -> Path:
    """`folder`, made if need be. UsageError: it cannot be."""
    with _writable(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def is_stream(path: Path) -> bool:
    """Whether it is standard output, a pipe or a device rather than a file that is or will be."""
    if str(path) == STDOUT:
        return True
    try:
        return path.exists() and not path.is_file() and not path.is_dir()
    except OSError:
        return False


def _beside(path: Path) -> Path:
    """The file that is written until it is whole. A link stays a link."""
    target = path.resolve()
    return target.with_name(f".{target.name}.{os.getpid()}.part")


@contextmanager
def _writable(output: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror or error}") from error
