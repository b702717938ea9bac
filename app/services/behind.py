"""What is stored beside the next call of its chunk: one thing at a time, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager


class Behind:
    """Runs one store at a time in a thread of its own, which begins with the first.

    Whatever happens, nobody leaves before it is through: an answered call is paid for.
    """

    def __init__(self, told: Callable[[], None]) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="giveway-store")
        self._told = told
        self._running: Future[str | None] | None = None

    def begin(self, store: Callable[[], str | None]) -> None:
        """Begin a store. The one before must have been waited for."""
        assert self._running is None
        self._running = self._thread.submit(store)

    def wait(self, before: str | None = None) -> str | None:
        """What the store that runs gives, or raises; `before` where none does."""
        running, self._running = self._running, None
        if running is None:
            return before
        found = running.result()
        self._told()
        return found

    def close(self) -> None:
        """Wait for what runs, whatever becomes of it."""
        self._thread.shutdown()


@contextmanager
def behind(told: Callable[[], None]) -> Iterator[Behind]:
    """For the time of a chunk. `told` is called by who waits, once a store is through."""
    one = Behind(told)
    try:
        yield one
    finally:
        one.close()
