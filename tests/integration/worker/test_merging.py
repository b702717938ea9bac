"""Merging through a real worker: counted at the endpoint."""

from __future__ import annotations

from celery import Celery

from tests.processes import Processes, until
from tests.rig import MakeRig, Rig


def test_two_hundred_at_once_are_twenty_calls_at_most(processes: Processes, rig: MakeRig) -> None:
    one = rig()
    processes.worker("interactive", "-c", "32").ready()
    app = one.with_broker(processes.environment["GIVEWAY_BROKER__URL"])
    # On a machine that does much else they do not all come at once: the best of three.
    calls = [_calls(one, app, round_number) for round_number in range(1, 4)]
    app.close()
    assert min(calls) <= 20, calls


def _calls(one: Rig, app: Celery, round_number: int) -> int:
    one.endpoint.calm()
    for n in range(200):
        app.send_task(
            "giveway.interactive.embed",
            kwargs={"texts": [f"text {round_number} number {n}"], "model": "fake-embed"},
            ignore_result=True,
        )
    done = "SELECT count(*) FROM interactive_requests WHERE state = 'done'"
    until(lambda: one.one(done) == 200 * round_number, 20, "the answers")
    ledger = one.endpoint.ledger()
    assert ledger["distinct_inputs"] == 200
    assert ledger["most_times_one_input_was_sent"] == 1
    return int(ledger["requests"])
