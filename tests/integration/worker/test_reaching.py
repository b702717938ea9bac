"""Reaching the broker from a process that may be a worker of somebody else's Celery app."""

from __future__ import annotations

import celery
from celery import Celery
from kombu import pools

from app.worker import reaching
from tests.rig import MakeRig


def test_the_apps_of_the_process_stay_as_they_are(rig: MakeRig, fresh_broker_url: str) -> None:
    one = rig(broker={"url": fresh_broker_url})
    one.limit(2)
    job = one.submit(["one", "two"]).job
    theirs = Celery("theirs", broker=fresh_broker_url, set_as_current=False)
    theirs.send_task("theirs.task", queue="theirs")  # It has connections of its own now.
    current = celery.current_app._get_current_object()

    assert reaching.ring(one.wiring, job.pool) > 0
    with reaching.celery_that_answers(one.wiring) as ours:
        ours.send_task("giveway.interactive.chat", kwargs={}, queue="interactive")
        assert celery.current_app._get_current_object() is current

    assert celery.current_app._get_current_object() is current
    theirs.send_task("theirs.task", queue="theirs")
    with theirs.connection_for_read() as connection:
        waiting = {
            name: connection.default_channel.queue_declare(name, passive=True).message_count
            for name in ("theirs", "batch", "interactive")
        }
    pools.reset()
    assert (waiting["theirs"], waiting["interactive"]) == (2, 1)
    assert waiting["batch"] > 0
