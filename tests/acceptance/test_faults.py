"""What becomes of batch and people when the throttle's own parts fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.acceptance.stack import Stack, documents
from tests.waiting import until

ITEMS = 8000

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(300)]


@contextmanager
def people(one: Stack, seconds: int, rps: int = 3) -> Iterator[list[Any]]:
    """Interactive load in the background; its report is in the list afterwards."""
    argv = [sys.executable, "-m", "app.cli.main", "load", "--rps", str(rps)]
    argv += ["--seconds", str(seconds)]
    argv += ["--model", "fake-chat", "--max-tokens", "8", "--json"]
    running = subprocess.Popen(
        argv, env=one.environment, cwd=one.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    report: list[Any] = []
    with running:
        try:
            yield report
            out, _ = running.communicate(timeout=seconds + 60)
            report.append(json.loads(out))
        finally:
            running.kill()


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """Stopped processes: alive, and silent. The supervisor does not replace those."""
    family = [p for pid in pids for p in (psutil.Process(pid), *psutil.Process(pid).children(True))]
    for process in family:
        os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in family:
            os.kill(process.pid, signal.SIGCONT)


def pool(one: Stack) -> Any:
    return one.json("throttle", "show")["pools"][0]


def test_a_silent_controller_sends_batch_to_the_floor_and_people_lose_nothing(
    shared: Stack, tmp_path: Path
) -> None:
    one = shared
    one.submit(documents(tmp_path / "docs.jsonl", 100_000), "long", "long")
    until(lambda: pool(one)["limit"] > 2, 30, "a limit over the floor")
    pids = one.pids()
    with people(one, 26) as report:
        with frozen(pids["control"], pids["beat"]):
            until(lambda: pool(one)["reason"] == "stale", 20, "the end of the last decision")
            assert pool(one)["limit"] == 1
            until(lambda: pool(one)["batch_in_flight"] <= 1, 10, "the floor")
            before = one.done("long")
            until(lambda: one.done("long") > before, 10, "work on the floor, which is not nothing")
        until(lambda: pool(one)["limit"] > 1, 25, "the controller's return")
    assert report[0]["failed"] == 0
    assert report[0]["sent"] > 40
    assert one.run("jobs", "cancel", "long").returncode == 0


def test_while_postgres_restarts_people_are_served_and_batch_waits(
    shared: Stack, tmp_path: Path
) -> None:
    one = shared
    one.submit(documents(tmp_path / "docs.jsonl", ITEMS), "restarts", "restarts")
    one.wait_done("restarts", 500)
    with people(one, 15) as report:
        for _ in range(3):
            time.sleep(3)
            one.kill("postgres")
    assert report[0]["failed"] == 0
    job = one.wait_completed("restarts")
    assert (job["done"], job["failed"]) == (ITEMS, 0)
    assert one.endpoint.ledger()["most_times_one_input_was_sent"] == 1


def test_an_endpoint_that_refuses_is_left_alone_and_the_job_goes_on(
    shared: Stack, tmp_path: Path
) -> None:
    one = shared
    one.endpoint.order(
        {"kind": "status", "status": 429, "retry_after": "2", "path": "embeddings", "remaining": 5}
    )
    one.submit(documents(tmp_path / "docs.jsonl", 3000), "refused", "refused")
    job = one.wait_completed("refused")
    assert (job["done"], job["failed"]) == (3000, 0)
    refused = [
        o for o in one.endpoint.ledger()["outcomes"] if o["outcome"] not in ("ok", "done", "200")
    ]
    assert sum(o["count"] for o in refused if o["path"] == "embeddings") <= 5 + 7
