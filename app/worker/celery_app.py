"""The Celery app: `celery -A app worker -Q batch`, `celery -A app beat`, `celery -A app flower`."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from celery import Celery, signals

from app import logs
from app.declared.knowledge import about
from app.errors import GivewayError
from app.settings import load
from app.wiring import Wiring
from app.worker.assembly import make
from app.worker.queues import INTERACTIVE, NAMES, refusal, threads

log = logging.getLogger(__name__)

_DEBUG = ("DEBUG", str(logging.DEBUG))


def _made_from_environment() -> Celery:
    try:
        return make(Wiring(load()))
    except GivewayError as error:
        sys.stderr.write(f"giveway: {logs.masked(str(error))}\n")
        raise SystemExit(2) from None


celery = _made_from_environment()


@signals.setup_logging.connect(weak=False)
def _logging(loglevel: int | str | None = None, **_: Any) -> None:
    """Our handler, which masks secrets, at the level that the command line asks for."""
    logs.configure(loglevel or "INFO")
    for handler in logging.getLogger().handlers:
        handler.addFilter(_is_no_tick)


def _is_no_tick(record: logging.LogRecord) -> bool:
    """Ticks come every second and say nothing new: their coming and going is not logged."""
    return record.levelno > logging.INFO or "giveway.control." not in str(record.msg)


def _hush() -> None:
    """Celery's two lines a request, at INFO, are not written: they cost people time, and the rows
    and Flower have what they say. What fails is logged as ever."""
    for name in ("celery.worker.strategy", "celery.app.trace"):
        logging.getLogger(name).setLevel(logging.WARNING)


@signals.celeryd_init.connect(weak=False)
def _look_at_queues(options: dict[str, Any] | None = None, conf: Any = None, **_: Any) -> None:
    """Refuse a shared worker, and give one without `-c` the threads that the settings say; Celery
    would give it one a core."""
    settings, options = celery.giveway.settings, options or {}
    given = options.get("queues") or ()
    chosen = given.split(",") if isinstance(given, str) else list(given)
    why = refusal(chosen, shared_is_wanted=settings.worker.shared)
    if why is not None:
        sys.stderr.write(f"giveway: {why}\n")
        raise SystemExit(2)
    if INTERACTIVE in (chosen or NAMES):
        from app.worker import revoking, unbegun  # What only workers need costs a beat its start.

        revoking.heed(celery.giveway)
        unbegun.note(celery.giveway)
    if chosen == [INTERACTIVE] and str(options.get("loglevel")) not in _DEBUG:
        _hush()
    if "thread" in str(options.get("pool")) and not options.get("concurrency"):
        conf.worker_concurrency = threads(chosen, settings)


@signals.celeryd_after_setup.connect(weak=False)
def _take_name(sender: str, instance: Any, **_: Any) -> None:
    wiring: Wiring = celery.giveway
    wiring.worker_name = sender
    wiring.threads = int(instance.concurrency or 4)


@signals.worker_ready.connect(weak=False)
def _take_over(sender: Any = None, **_: Any) -> None:
    """Tell what this worker can do; what an earlier process of its name held is ours to give back,
    at once."""
    wiring: Wiring = celery.giveway
    queues = list(sender.app.amqp.queues.consume_from) if sender is not None else list(NAMES)
    wiring.presence.keep(about(queues, wiring.pools, os.environ))
    try:
        wiring.declare()
        taken = wiring.rescue.replace(wiring.worker_name)
        if taken:
            log.info("gave back %d leases of an earlier %s", taken, wiring.worker_name)
            wiring.ringing.ring_all()
    except GivewayError as error:
        log.warning("could not look for leases of an earlier worker: %s", error)


@signals.worker_shutdown.connect(weak=False)
def _leave(**_: Any) -> None:
    """What became of the last requests is written before the process ends."""
    wiring: Wiring = celery.giveway
    if "interactive" in vars(wiring):
        wiring.interactive.close()


@signals.worker_shutting_down.connect(weak=False)
def _stop_claiming(**_: Any) -> None:
    """TERM or INT: finish the checkpoint, hand the chunk back, claim nothing more."""
    wiring: Wiring = celery.giveway
    wiring.leases.stopping.set()
    wiring.presence.leave()
