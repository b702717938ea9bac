"""The event log's writer: takes events at once, writes them in batches from one thread."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import orjson

from app import clock
from app.domain.events import Event, columns_of, facts_of, type_of
from app.errors import GivewayError

if TYPE_CHECKING:
    from app.storage.database import Database
    from app.storage.event_store import Record

log = logging.getLogger(__name__)

_EVERY_S = 0.5
_LONGEST_PAUSE_S = 5.0
_AT_ONCE = 500
_MOST_HELD = 10_000
"""While the database is away, so many events are kept for it; what comes after them is lost."""

Held = tuple[float, Event]
"""When it was seen, by this process's monotonic clock, and what."""


class Recorder:
    """An observer that never blocks and never raises.

    A batch whose commit went through while its answer got lost is written twice: the log tells what
    happened, it does not count it.
    """

    def __init__(self, database: Callable[[], Database], most_held: int = _MOST_HELD) -> None:
        """`database` is asked for at the first write, in the thread that writes."""
        self._database = database
        self._most_held = most_held
        self._held: deque[Held] = deque()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._pid = 0
        self.lost = 0
        """Events that were dropped since the process began."""

    def saw(self, event: Event) -> None:
        """Keep `event` for the next batch."""
        if not event.logged:
            return
        if len(self._held) >= self._most_held:
            self._dropped()
            return
        self._held.append((clock.monotonic_s(), event))
        if self._pid != os.getpid():
            self._begin()

    def close(self, within_s: float = 2.0) -> None:
        """Write what is held, and end the thread. What cannot be written in time is lost."""
        thread = self._thread if self._pid == os.getpid() else None
        if thread is None:
            return
        self._closing.set()
        self._wake.set()
        thread.join(within_s)
        atexit.unregister(self.close)
        self._thread, self._pid = None, 0

    def _begin(self) -> None:
        """A thread of this process; one that was forked has none."""
        with self._lock:
            if self._pid == os.getpid():
                return
            if self._pid:
                # Forked: all but the event that came just now is the parent's, who writes it.
                while len(self._held) > 1:
                    self._held.popleft()
            self._closing, self._wake = threading.Event(), threading.Event()
            self._thread = threading.Thread(
                target=self._write_until_closed, name="event-log", daemon=True
            )
            self._pid = os.getpid()
            self._thread.start()
            # Before Python waits for its threads, so that the last events are written.
            atexit.register(self.close)

    def _write_until_closed(self) -> None:
        pause_s = _EVERY_S
        while True:
            is_last = self._closing.is_set()
            written = self._write_all()
            if is_last:
                return
            pause_s = _EVERY_S if written else min(2 * pause_s, _LONGEST_PAUSE_S)
            self._wake.wait(pause_s)

    def _write_all(self) -> bool:
        """Write until nothing is held; False: the database does not take it now."""
        while self._held:
            batch = [self._held[n] for n in range(min(_AT_ONCE, len(self._held)))]
            if not self._written(batch):
                return False
            for _ in batch:
                self._held.popleft()
        return True

    def _written(self, batch: list[Held]) -> bool:
        from app.storage.event_store import EventStore

        try:
            with self._database().transaction() as tx:
                # Not before: their age is counted from the moment at which they are written.
                EventStore(tx).append(_records(batch))
        except GivewayError as error:
            log.debug("the event log waits: %s", error)
            return False
        except Exception:
            # Not the database's absence: these events would stop all that come after them.
            log.exception("%d events could not be written", len(batch))
            self.lost += len(batch)
        return True

    def _dropped(self) -> None:
        self.lost += 1
        if self.lost == 1 or self.lost % self._most_held == 0:
            log.warning(
                "the event log has lost %d events: the database did not take them", self.lost
            )


def _records(batch: list[Held]) -> list[Record]:
    from app.storage.event_store import Record

    now_s = clock.monotonic_s()
    return [
        Record(now_s - at_s, type_of(event), facts=orjson.dumps(facts_of(event)), **columns)
        for at_s, event in batch
        for columns in (columns_of(event),)
    ]
