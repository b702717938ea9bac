"""Reaching the broker from a process that may be a worker of somebody else's Celery app."""

from __future__ import annotations

import celery
import pytest
import redis
from celery import Celery
from celery.exceptions import TimeoutError as NoResult
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


def test_who_stops_waiting_leaves_no_connection(rig: MakeRig, fresh_broker_url: str) -> None:
    """An asked task without an answer is given up when it is dropped, by Celery, and that may be
    after its connections were closed: it must not open another one."""
    wiring = rig(broker={"url": fresh_broker_url}).wiring
    with reaching.celery_that_answers(wiring) as app:
        result = app.send_task("giveway.interactive.chat", kwargs={}, queue="interactive")
        with pytest.raises(NoResult):
            result.get(timeout=0.1)
    with redis.Redis.from_url(fresh_broker_url) as client:
        before = client.info("stats")["total_connections_received"]
        result.__del__()
        assert client.info("stats")["total_connections_received"] == before
