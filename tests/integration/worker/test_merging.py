"""Merging through a real worker: counted at the endpoint."""

from __future__ import annotations

import signal

from celery import Celery

from tests.processes import Processes, Started
from tests.rig import MakeRig, Rig
from tests.waiting import until


def test_two_hundred_at_once_are_twenty_calls_at_most(processes: Processes, rig: MakeRig) -> None:
    """They wait for company as long as may be set, so that a worker's threads need not be quick."""
    one = rig()
    patient = {"GIVEWAY_MERGING__WAIT_MS": "100"}
    worker = processes.worker("interactive", "-c", "32", **patient).ready()
    app = one.with_broker(processes.environment["GIVEWAY_BROKER__URL"])
    assert _calls(one, app, worker) <= 20


def _calls(one: Rig, app: Celery, worker: Started) -> int:
    worker.send(signal.SIGSTOP)  # All are there before it takes the first: at once.
    for n in range(200):
        app.send_task(
            "giveway.interactive.embed",
            kwargs={"texts": [f"text number {n}"], "model": "fake-embed"},
            ignore_result=True,
        )
    worker.send(signal.SIGCONT)
    done = "SELECT count(*) FROM interactive_requests WHERE state = 'done'"
    until(lambda: one.one(done) == 200, 60, "the answers")
    ledger = one.endpoint.ledger()
    assert ledger["distinct_inputs"] == 200
    assert ledger["most_times_one_input_was_sent"] == 1
    return int(ledger["requests"])
