"""Merging through a real worker: counted at the endpoint."""

from __future__ import annotations

from tests.processes import Processes, until
from tests.rig import MakeRig


def test_two_hundred_at_once_are_twenty_calls_at_most(processes: Processes, rig: MakeRig) -> None:
    one = rig()
    processes.worker("interactive", "-c", "32").ready()
    app = one.with_broker(processes.environment["GIVEWAY_BROKER__URL"])
    for n in range(200):
        app.send_task(
            "giveway.interactive.embed",
            kwargs={"texts": [f"text number {n}"], "model": "fake-embed"},
            ignore_result=True,
        )
    done = "SELECT count(*) FROM interactive_requests WHERE state = 'done'"
    until(lambda: one.one(done) == 200, 20, "the answers")
    app.close()
    ledger = one.endpoint.ledger()
    assert ledger["distinct_inputs"] == 200
    assert ledger["most_times_one_input_was_sent"] == 1
    assert ledger["requests"] <= 20
