"""Jobs and people of several processes spend one endpoint's tokens from one bucket."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from app import errors
from app.domain.rates import WINDOW_S
from app.storage.rate_store import RateStore
from tests.integration.services.test_rates import (
    A_TEXT,
    TEXTS,
    arrivals,
    asking,
    budgeted,
    most_in_any,
    spent_at,
)
from tests.rig import MakeRig, Rig
from tests.waiting import until

WINDOW, BUDGET = 1.0, 30 * A_TEXT


def spent(make: MakeRig) -> tuple[int, Rig]:
    """The most tokens in any window that the endpoint saw of two processes, each with three threads
    for a job and two people, who go on until more than a window's worth was wanted."""
    rigs = [budgeted(make, "sim", tokens_per_minute=BUDGET) for _ in range(2)]
    one = rigs[0]
    for each in rigs:
        assert each.wiring.rates._window_s == WINDOW_S == 60.0
        each.wiring.rates._window_s = WINDOW
    job_id = one.submit([f"{n} {text}" for n in range(20) for text in TEXTS]).job.id
    enough = threading.Event()

    def work(each: Rig) -> None:
        while not enough.is_set():
            if each.wiring.execution.run(job_id).ended != "finished":
                time.sleep(0.02)

    def ask(each: Rig) -> None:
        while not enough.is_set():
            try:
                asking(each, deadline_s=2 * WINDOW)
            except errors.EndpointError:  # Mostly that the budget is spent.
                time.sleep(0.02)

    with ThreadPoolExecutor(10) as pool:
        tasks = [pool.submit(what, each) for each in rigs for what in (work, work, work, ask, ask)]
        try:
            until(lambda: was_enough(one) or any(task.done() for task in tasks), 20, "the calls")
        finally:
            enough.set()
        for done in wait(tasks, 120).done:
            done.result()
    assert was_enough(one)
    return most_in_any(WINDOW, arrivals(one.endpoint)), one


def was_enough(one: Rig) -> bool:
    """More than one window's worth was wanted, and both sorts got something."""
    people = one.one("SELECT count(*) FROM interactive_requests WHERE state = 'done'")
    batch = one.one("SELECT count(*) FROM batch_calls WHERE error_code IS NULL")
    return people > 0 and batch > 0 and spent_at(one.endpoint) > 1.6 * BUDGET


def test_jobs_and_people_of_two_processes_never_pass_it_in_any_window(rig: MakeRig) -> None:
    most, one = spent(rig)
    assert most <= BUDGET
    assert one.one("SELECT max(attempt) FROM chunks") == 0
    assert one.one("SELECT refusals FROM endpoints") == 0


def test_mutant_that_soon_forgets_what_was_spent_passes_it(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing = RateStore.standing

    def of_late(self: RateStore, endpoint: str, window_s: float) -> object:
        return standing(self, endpoint, window_s / 20)

    monkeypatch.setattr(RateStore, "standing", of_late)
    most, _ = spent(rig)
    assert most > BUDGET
