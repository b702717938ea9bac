"""Putting a Celery app together on a wiring; the command line does so too, to send and to wait."""

from __future__ import annotations

from typing import Any

from celery import Celery

from app.domain.events import Several
from app.wiring import Wiring
from app.worker import batch_tasks, control_tasks, interactive_tasks
from app.worker.config import configuration, publishing
from app.worker.doorbell import CeleryDoorbell
from app.worker.observer import TaskProgress

_RESULTS = "app.worker.redis_results:QuickRedisBackend"


class _Publishing(Celery):
    """An app none of whose publishing waits for ever, whoever of Celery opens the connection."""

    amqp_cls = "app.worker.connections:OwnAMQP"
    publishing: dict[str, float]

    def connection_for_write(self, url: str | None = None, **kwargs: Any) -> Any:
        options = {**(kwargs.pop("transport_options", None) or {}), **self.publishing}
        return super().connection_for_write(url, transport_options=options, **kwargs)


def make(wiring: Wiring, *, current: bool = True) -> Celery:
    """A Celery app on this wiring, with every task registered.

    `current`: the process is ours, and so is its current app.
    """
    app = _Publishing("giveway", set_as_current=current)
    app.publishing = publishing(wiring.settings)
    app.conf.update(configuration(wiring.settings))
    app.loader.override_backends = dict.fromkeys(("redis", "rediss"), _RESULTS)
    app.giveway = wiring
    wiring.doorbell = CeleryDoorbell(app, wiring.settings.broker.connect_timeout_s)
    wiring.observer = Several(TaskProgress(), wiring.recorder)
    for module in (batch_tasks, control_tasks, interactive_tasks):
        module.register(app, wiring)
    return app
