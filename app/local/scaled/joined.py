"""A server that others start and stop: in the pool for as long as we run, drained at the end."""

from __future__ import annotations

import logging
import threading

import httpx2

from app.clock import monotonic_s
from app.domain.routing import EndpointSpec
from app.errors import DatabaseUnavailable
from app.local.scaled.roster import Roster

log = logging.getLogger(__name__)

_ASK_EVERY_S = 1.0
_LOOK_EVERY_S = 0.5


def stay(roster: Roster, spec: EndpointSpec, stopping: threading.Event, grace_s: float) -> None:
    """Wait until the server answers, register it, wait for `stopping`, and see it out.

    What it still has in flight gets `grace_s`.
    """
    while not stopping.is_set() and not answers(spec.base_url):
        stopping.wait(_ASK_EVERY_S)
    joined = False
    while not stopping.is_set():
        if not joined:
            joined = _joined(roster, spec)
        stopping.wait(_ASK_EVERY_S)
    _leave(roster, spec, grace_s)


def answers(base_url: str) -> bool:
    """Whether the server is there and says that it is well.

    llama.cpp listens, and answers 503, while it loads; Ollama knows no /health and says 404.
    """
    try:
        answer = httpx2.get(f"{base_url.removesuffix('/v1')}/health", timeout=_ASK_EVERY_S)
    except httpx2.HTTPError:
        return False
    return answer.status_code < 500


def _joined(roster: Roster, spec: EndpointSpec) -> bool:
    try:
        roster.join(spec)
    except DatabaseUnavailable as error:
        log.warning("%s is not in the pool yet: %s", spec.name, error)
        return False
    log.info("%s is in pool %s", spec.name, spec.pool)
    return True


def _leave(roster: Roster, spec: EndpointSpec, grace_s: float) -> None:
    until_s, is_drained = monotonic_s() + grace_s, False
    while True:
        late = monotonic_s() >= until_s
        try:
            if not is_drained:
                roster.leave(spec.name)
                is_drained = True
            if roster.remove(spec.name, now=late):
                log.info("%s has left", spec.name)
                return
        except DatabaseUnavailable as error:
            log.warning("%s cannot leave yet: %s", spec.name, error)
            if late:
                return
        threading.Event().wait(_LOOK_EVERY_S)
