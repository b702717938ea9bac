"""Ringing between ticks: a limit that rises while chunks are at work is not used a second later.

A chunk of many items ends seldom, and ticks come once a second. People come and go in between, and
whoever fills a place a second late takes it from the next who come.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.errors import GivewayError

log = logging.getLogger(__name__)

_EVERY_S = 0.2
"""Two small queries each time; a ring goes out only where a place is free."""


class Filling:
    """Calls `ring` every 0.2 s for as long as this process works on a chunk."""

    def __init__(self, ring: Callable[[], object], every_s: float = _EVERY_S) -> None:
        self._ring = ring
        self._every_s = every_s
        self._lock = threading.Lock()
        self._working = 0
        self._thread: threading.Thread | None = None

    @contextmanager
    def working(self) -> Iterator[None]:
        """A chunk is at work while the block runs. Any number of threads may be in it."""
        with self._lock:
            self._working += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="filling", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._working -= 1

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(self._every_s)
            with self._lock:
                if not self._working:
                    self._thread = None
                    return
            try:
                self._ring()
            except GivewayError as error:
                log.debug("no ring between ticks: %s", error)
            except Exception:
                log.exception("ringing between ticks failed")
