"""Waiting in a terminal: for a job, and for a stack that starts."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from app.cli.parts.watching import watch
from app.cli.stack_view import Starting, waits_for
from app.local.leftovers import Birth
from app.local.state import ProcessState, StackState

STATE = StackState(
    data="/data",
    config=None,
    supervisor=Birth(1, 1.0),
    ready=False,
    processes=(
        ProcessState("postgres", "running", None, 0),
        ProcessState("upgrade", "done", None, 0),
        ProcessState("worker-batch", "restarting", None, 2),
        ProcessState("flower", "waiting", None, 0),
    ),
)


def test_who_stops_waiting_is_told_that_the_job_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as ended:
        watch(cast("Any", SimpleNamespace(job=interrupted)), "nightly")

    assert ended.value.exit_code == 130
    err = capsys.readouterr().err
    assert "the job goes on; watch it with: giveway jobs watch nightly" in err
    assert "stop it with: giveway jobs cancel nightly" in err


def test_a_start_says_what_it_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert waits_for(STATE) == (
        "waiting for worker-batch (ended, and is started again: /data/logs/worker-batch.log), "
        "flower"
    )
    ready = tuple(replace(one, state="running") for one in STATE.processes)
    with Starting() as view:
        for state in (STATE, STATE, replace(STATE, processes=ready)):
            view.show(state)

    assert capsys.readouterr().err.splitlines() == [
        "starting; the first time, Postgres makes its files",
        waits_for(STATE),
    ]
