"""One stack at a time on a data folder: a lock that ends with the process that holds it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from app.clock import monotonic_s
from app.errors import StackRunning, UsageError

_FILE = "stack.lock"
# One that was just killed holds its lock until the kernel has cleared it away.
_PATIENCE_S = 1.0


@contextlib.contextmanager
def held(data: Path) -> Iterator[None]:
    """Hold the folder's lock. StackRunning, with the pid and the way out, if somebody else does."""
    with keeping(data):
        data.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(data / _FILE, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+", encoding="ascii") as file:
        if not _taken(file, within_s=_PATIENCE_S):
            raise _running(data)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


@contextlib.contextmanager
def keeping(data: Path) -> Iterator[None]:
    """UsageError: the block could not make what it makes in the folder."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot keep data in {data}: {error.strerror or error}") from error


def is_held(data: Path, within_s: float = 0.0) -> bool:
    """Whether somebody holds the folder's lock, and does not let it go within that time."""
    path = data / _FILE
    if not path.exists():
        return False
    with path.open("r+") as file:
        return not _taken(file, within_s)


def _taken(file: IO[str], within_s: float) -> bool:
    until = monotonic_s() + within_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic_s() >= until:
                return False
            time.sleep(0.02)
        else:
            return True


def check_free(data: Path) -> None:
    """StackRunning if somebody holds the folder's lock now."""
    if is_held(data, within_s=_PATIENCE_S):
        raise _running(data)


def _running(data: Path) -> StackRunning:
    pid = (data / _FILE).read_text().strip() or "unknown"
    return StackRunning(
        f"a stack already runs on {data} (pid {pid}); "
        f"stop it with `giveway down --data {data}`, or choose another --data"
    )
