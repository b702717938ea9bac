"""Celery's own `revoke` for people's requests whose task has begun.

A message that no thread has taken is dropped by Celery itself. One that a thread has taken may
still wait for a place, and Celery leaves it alone: it is taken back here, as by `giveway ask`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

from celery.utils.functional import maybe_list
from celery.worker import state as worker
from celery.worker.control import Panel

from app.errors import GivewayError
from app.wiring import Wiring
from app.worker.interactive_tasks import Discreet, as_uuid

log = logging.getLogger(__name__)

_AGAIN_AFTER_S = 0.5


def heed(wiring: Wiring) -> None:
    """From now on this process takes revoked requests back: what was not sent is not sent, and with
    `terminate` a call in flight is closed."""
    celerys = Panel.data["revoke"]

    def revoke(
        state: Any, task_id: Any, terminate: bool = False, signal: Any = None, **more: Any
    ) -> Any:
        """Celery's, and then ours."""
        answer = celerys(state, task_id, terminate, signal, **more)
        known = [worker.requests.get(one) for one in maybe_list(task_id) or ()]
        begun = [one.id for one in known if isinstance(one, Discreet)]
        if begun:
            # Commands are handled by the thread that receives messages; the database may be slow.
            threading.Thread(
                target=_take_back, args=(wiring, begun, terminate), name="revoke", daemon=True
            ).start()
        return answer

    Panel.data["revoke"] = revoke


def _take_back(wiring: Wiring, task_ids: Sequence[str], even_running: bool) -> None:
    missed = _missed(wiring, task_ids, even_running)
    if missed:  # A thread may have taken it just now, and its row is being written.
        threading.Event().wait(_AGAIN_AFTER_S)
        _missed(wiring, missed, even_running)


def _missed(wiring: Wiring, task_ids: Sequence[str], even_running: bool) -> list[str]:
    """Take them back; those that are not there to be taken back."""
    try:
        return [
            one
            for one in task_ids
            if wiring.interactive.cancel(as_uuid(one), even_running=even_running) is None
        ]
    except GivewayError as error:
        log.warning("revoked requests could not be taken back: %s", error)
        return []
