"""People's messages that Celery throws away before a thread takes them: each leaves its row.

One that expired at the broker, or that was revoked, never reaches the task. Without a row neither
the report nor the throttle would know that somebody waited in vain.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from celery import Task, signals
from celery.utils.time import maybe_iso8601, maybe_make_aware

from app import clock
from app.domain.requests import Unbegun
from app.errors import Abandoned, EndpointTimeout, GivewayError
from app.wiring import Wiring
from app.worker.interactive_tasks import InteractiveTask, as_sent

log = logging.getLogger(__name__)


def note(wiring: Wiring) -> None:
    """From now on this process records them."""
    recorder = _Recorder(wiring)

    def noted(
        sender: Task | None = None, request: Any = None, expired: bool = False, **_: Any
    ) -> None:
        if isinstance(sender, InteractiveTask):
            recorder.put(sender.name, request, is_expired=expired)

    signals.task_revoked.connect(noted, weak=False)


class _Recorder:
    """Writes on a thread of its own, many at once: signals come on the thread that receives
    messages, and a whole backlog of expired ones may come together."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._lock = threading.Lock()
        self._held: list[tuple[str, Any, bool]] = []
        self._writes = False

    def put(self, name: str, request: Any, *, is_expired: bool) -> None:
        with self._lock:
            self._held.append((name, request, is_expired))
            if self._writes:
                return
            self._writes = True
        threading.Thread(target=self._write, name="unbegun").start()

    def _write(self) -> None:
        while True:
            with self._lock:
                held, self._held = self._held, []
                if not held:
                    self._writes = False
                    return
            try:
                dropped = [one for given in held if (one := self._unbegun(*given)) is not None]
                self._wiring.interactive.never_begun(dropped)
            except Exception as error:  # noqa: BLE001 - the next one starts the thread no more
                log.warning("%d unbegun requests left no row: %s", len(held), type(error).__name__)

    def _unbegun(self, name: str, request: Any, is_expired: bool) -> Unbegun | None:
        """None: the task would have refused it, so that it is nobody's request."""
        sent: Mapping[str, Any] = request.kwargs or {}
        try:
            new = as_sent(self._wiring, name, str(request.id), sent)
        except GivewayError as error:
            log.info("an unbegun request leaves no row: %s", error)
            return None
        ended_at = _moment(request.expires) if is_expired else clock.now()
        code = EndpointTimeout.code if is_expired else Abandoned.code
        return Unbegun(new, ended_at, code)


def _moment(expires: Any) -> datetime:
    """Celery's `expires` as it stands in the message."""
    moment: datetime = maybe_make_aware(maybe_iso8601(expires))
    return moment
