"""Jobs and people of several processes spend one endpoint's tokens from one bucket."""

from __future__ import annotations

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
)
from tests.rig import MakeRig, Rig

WINDOW, BUDGET = 2.0, 30 * A_TEXT


def spent(make: MakeRig, for_s: float) -> tuple[int, Rig]:
    """The most tokens in any window that the endpoint saw of two processes, each with three threads
    for a job and two people."""
    rigs = [budgeted(make, "sim", tokens_per_minute=BUDGET) for _ in range(2)]
    one = rigs[0]
    for each in rigs:
        assert each.wiring.rates._window_s == WINDOW_S == 60.0
        each.wiring.rates._window_s = WINDOW
    job_id = one.submit([f"{n} {text}" for n in range(20) for text in TEXTS]).job.id
    end_s = time.monotonic() + for_s

    def work(each: Rig) -> None:
        while time.monotonic() < end_s:
            if each.wiring.execution.run(job_id).ended != "finished":
                time.sleep(0.02)

    def ask(each: Rig) -> None:
        while time.monotonic() < end_s:
            try:
                asking(each, deadline_s=WINDOW)
            except errors.EndpointError:  # Mostly that the budget is spent.
                time.sleep(0.02)

    with ThreadPoolExecutor(10) as pool:
        tasks = [pool.submit(what, each) for each in rigs for what in (work, work, work, ask, ask)]
        for done in wait(tasks, 120).done:
            done.result()
    seen = arrivals(one.endpoint)
    assert sum(n for _, n in seen) > 1.5 * BUDGET  # More than one window's worth was wanted.
    return most_in_any(WINDOW, seen), one


def test_jobs_and_people_of_two_processes_never_pass_it_in_any_window(rig: MakeRig) -> None:
    most, one = spent(rig, 4.5)
    assert most <= BUDGET
    assert one.one("SELECT count(*) FROM interactive_requests WHERE state = 'done'") > 0
    assert one.one("SELECT count(*) FROM batch_calls WHERE error_code IS NULL") > 0
    assert one.one("SELECT max(attempt) FROM chunks") == 0
    assert one.one("SELECT refusals FROM endpoints") == 0


def test_mutant_that_soon_forgets_what_was_spent_passes_it(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing = RateStore.standing

    def of_late(self: RateStore, endpoint: str, window_s: float) -> object:
        return standing(self, endpoint, window_s / 20)

    monkeypatch.setattr(RateStore, "standing", of_late)
    most, _ = spent(rig, 3.0)
    assert most > BUDGET
