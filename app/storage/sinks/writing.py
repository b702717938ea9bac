"""Writing: a file that is there as a whole or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from app.errors import UsageError


@contextmanager
def whole(output: str) -> Iterator[BinaryIO]:
    """A stream that becomes the file `output` at the end of the block; on an error nothing does.

    `-` is standard output; a pipe or device is written as it is. UsageError: it cannot be made.
    """
    path = Path(output)
    if output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                yield stream
            return
        target = path.resolve()
        beside = target.with_name(f".{target.name}.{os.getpid()}.part")
        stream = beside.open("wb")
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror or error}") from error
    try:
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
