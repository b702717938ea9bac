"""Merging through a real worker: counted at the endpoint."""

from __future__ import annotations

import signal

from celery import Celery

from tests.processes import Processes, Started
from tests.rig import MakeRig, Rig
from tests.waiting import until


def test_two_hundred_at_once_are_twenty_calls_at_most(processes: Processes, rig: MakeRig) -> None:
    one = rig()
    worker = processes.worker("interactive", "-c", "32").ready()
    app = one.with_broker(processes.environment["GIVEWAY_BROKER__URL"])
    # On a machine that does much else the worker's threads come apart: the best of three.
    calls = [_calls(one, app, worker, number) for number in range(1, 4)]
    assert min(calls) <= 20, calls


def _calls(one: Rig, app: Celery, worker: Started, round_number: int) -> int:
    one.endpoint.calm()
    worker.send(signal.SIGSTOP)  # All are there before it takes the first: at once.
    for n in range(200):
        app.send_task(
            "giveway.interactive.embed",
            kwargs={"texts": [f"text {round_number} number {n}"], "model": "fake-embed"},
            ignore_result=True,
        )
    worker.send(signal.SIGCONT)
    done = "SELECT count(*) FROM interactive_requests WHERE state = 'done'"
    until(lambda: one.one(done) == 200 * round_number, 60, "the answers")
    ledger = one.endpoint.ledger()
    assert ledger["distinct_inputs"] == 200
    assert ledger["most_times_one_input_was_sent"] == 1
    return int(ledger["requests"])
