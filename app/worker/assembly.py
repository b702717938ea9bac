"""Putting a Celery app together on a wiring; the command line does so too, to send and to wait."""

from __future__ import annotations

from celery import Celery

from app.domain.events import Several
from app.wiring import Wiring
from app.worker import batch_tasks, control_tasks, interactive_tasks
from app.worker.config import configuration
from app.worker.doorbell import CeleryDoorbell
from app.worker.observer import TaskProgress


def make(wiring: Wiring, *, current: bool = True) -> Celery:
    """A Celery app on this wiring, with every task registered.

    `current`: the process is ours, and so is its current app.
    """
    app = Celery("giveway", set_as_current=current)
    app.conf.update(configuration(wiring.settings))
    app.giveway = wiring
    wiring.doorbell = CeleryDoorbell(app, wiring.settings.broker.connect_timeout_s)
    wiring.observer = Several(TaskProgress(), wiring.recorder)
    for module in (batch_tasks, control_tasks, interactive_tasks):
        module.register(app, wiring)
    return app
