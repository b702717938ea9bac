"""Presence: a worker tells that it runs, and what it knows, for as long as it does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from app.errors import GivewayError
from app.storage.database import Database
from app.storage.worker_store import SEEN_S, About, WorkerStore

log = logging.getLogger(__name__)

_EVERY_S = SEEN_S / 4


class Presence:
    """Writes this process's row, again and again, in a thread of its own."""

    def __init__(self, database: Database, name: Callable[[], str]) -> None:
        self._database = database
        self._name = name
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def tell(self, about: About) -> None:
        """Once, now."""
        with self._database.transaction() as tx:
            WorkerStore(tx).seen(self._name(), about)

    def keep(self, about: About) -> None:
        """From now on. A database that is away is tried again; the work does not wait for it."""
        self._thread = threading.Thread(
            target=self._run, args=(about,), name="giveway-presence", daemon=True
        )
        self._thread.start()

    def leave(self) -> None:
        """The process is about to end: soon nobody counts on it any more. Does not wait."""
        self._over.set()

    def close(self) -> None:
        """The same, waited for."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self.leave()
            thread.join(5)

    def _run(self, about: About) -> None:
        while not self._over.is_set():
            self._quietly(lambda: self.tell(about))
            self._over.wait(_EVERY_S)
        self._quietly(self._left)

    def _left(self) -> None:
        with self._database.transaction() as tx:
            WorkerStore(tx).left(self._name())

    def _quietly(self, act: Callable[[], None]) -> None:
        try:
            act()
        except GivewayError as error:
            log.warning("could not tell how this worker is: %s", error)
        except Exception:
            log.exception("telling how this worker is failed")
