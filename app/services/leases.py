"""The leases this process holds, kept alive by one thread in one statement a beat."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app import clock
from app.domain.chunks import Lease
from app.errors import GivewayError
from app.inference.cancel import Cancel
from app.storage.database import Database
from app.storage.lease_store import LeaseStore
from app.storage.yield_store import YieldStore

log = logging.getLogger(__name__)

_LOOK_S = 0.25
"""How often streaming calls are looked after between two heartbeats."""

Ref = tuple[int, int, int]
"""(job_id, chunk no, fence)."""


class Held:
    """A lease while it is worked on. The flags are set by the heartbeat and read by the work.

    `close` ends the call in flight at once.
    """

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.lost = False
        self.yield_requested = False
        self.close = Cancel()
        self.streams = False
        """Whether the call in flight may be closed in the middle: then the look is quick."""

    @property
    def ref(self) -> Ref:
        """What the lease is known by."""
        return (self.lease.job_id, self.lease.no, self.lease.fence)


class Leases:
    """Registers leases and extends them. Thread-safe; the thread starts with the first lease."""

    def __init__(
        self,
        database: Database,
        lease_s: float,
        heartbeat_s: float,
        worker: Callable[[], str] = str,
    ) -> None:
        self._database = database
        self._worker = worker
        self.lease_s = lease_s
        self._heartbeat_s = heartbeat_s
        self._chunks: dict[Ref, Held] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self.stopping = threading.Event()
        """Set when the process is told to end: hand back, claim nothing."""

    @contextmanager
    def keep(self, lease: Lease) -> Iterator[Held]:
        """Extend `lease` for as long as the block runs."""
        held = Held(lease)
        with self._lock:
            self._chunks[held.ref] = held
        self._start()
        try:
            yield held
        finally:
            with self._lock:
                self._chunks.pop(held.ref, None)

    def beat(self) -> None:
        """Extend everything once, and learn which leases are lost and which must yield."""
        with self._lock:
            chunks = dict(self._chunks)
        if not chunks:
            return
        with self._database.transaction() as tx:
            standing = LeaseStore(tx).extend(list(chunks), self.lease_s)
        for ref, held in chunks.items():
            if ref not in standing:
                held.lost = True
                held.close.set()
            elif standing[ref]:
                held.yield_requested = True
                held.close.set()

    def look(self, worker: str) -> None:
        """Learn at once which streaming calls must give their place back."""
        with self._lock:
            streaming = {ref: held for ref, held in self._chunks.items() if held.streams}
        if not streaming:
            return
        with self._database.transaction() as tx:
            asked = YieldStore(tx).asked_to_yield(worker)
        for ref in asked:
            if ref in streaming:
                streaming[ref].yield_requested = True
                streaming[ref].close.set()

    def _start(self) -> None:
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="giveway-heartbeat", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """End the thread: nothing is extended any more, and the database is left alone."""
        self._closed.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(5)

    def _run(self) -> None:
        # Not `stopping.wait`: leases must live until their last checkpoint.
        beat_at = clock.monotonic_s() + self._heartbeat_s
        while not self._closed.wait(min(_LOOK_S, self._heartbeat_s)):
            try:
                if clock.monotonic_s() >= beat_at:
                    beat_at = clock.monotonic_s() + self._heartbeat_s
                    self.beat()
                self.look(self._worker())
            except GivewayError as error:
                log.warning("heartbeat missed: %s", error)
            except Exception:
                log.exception("heartbeat failed")
