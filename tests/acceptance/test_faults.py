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

from tests.acceptance.conftest import MakeStack
from tests.acceptance.stack import Stack, documents
from tests.processes import until

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
    stack: MakeStack, tmp_path: Path
) -> None:
    one = stack()
    one.submit(documents(tmp_path / "docs.jsonl", 100_000), "nightly-1")
    until(lambda: pool(one)["limit"] > 2, 30, "a limit over the floor")
    pids = one.pids()
    with people(one, 26) as report:
        with frozen(pids["control"], pids["beat"]):
            until(lambda: pool(one)["reason"] == "stale", 20, "the end of the last decision")
            assert pool(one)["limit"] == 1
            until(lambda: pool(one)["batch_in_flight"] <= 1, 10, "the floor")
            before = one.job("nightly-1")["done"]
            time.sleep(3)
            assert one.job("nightly-1")["done"] > before  # the floor is not nothing
        until(lambda: pool(one)["limit"] > 1, 25, "the controller's return")
    assert report[0]["failed"] == 0
    assert report[0]["sent"] > 40


def test_while_postgres_restarts_people_are_served_and_batch_waits(
    stack: MakeStack, tmp_path: Path
) -> None:
    one = stack()
    one.submit(documents(tmp_path / "docs.jsonl", 20_000), "nightly-1")
    one.wait_done("nightly-1", 500)
    with people(one, 15) as report:
        for _ in range(3):
            time.sleep(3)
            one.kill("postgres")
    assert report[0]["failed"] == 0
    job = one.wait_completed("nightly-1")
    assert (job["done"], job["failed"]) == (20_000, 0)
    assert one.endpoint.ledger()["most_times_one_input_was_sent"] == 1


def test_an_endpoint_that_refuses_is_left_alone_and_the_job_goes_on(
    stack: MakeStack, tmp_path: Path
) -> None:
    one = stack()
    one.endpoint.order(
        {"kind": "status", "status": 429, "retry_after": "2", "path": "embeddings", "remaining": 5}
    )
    one.submit(documents(tmp_path / "docs.jsonl", 3000), "nightly-1")
    job = one.wait_completed("nightly-1")
    assert (job["done"], job["failed"]) == (3000, 0)
    refused = [
        o for o in one.endpoint.ledger()["outcomes"] if o["outcome"] not in ("ok", "done", "200")
    ]
    assert sum(o["count"] for o in refused if o["path"] == "embeddings") <= 5 + 7


def test_two_poisonous_items_fail_alone_and_neither_their_job_nor_people_notice(
    stack: MakeStack, tmp_path: Path
) -> None:
    one = stack()
    one.endpoint.order({"kind": "drop", "path": "chat", "text": "POISON-A"})
    one.endpoint.order({"kind": "status", "status": 503, "path": "chat", "text": "POISON-B"})
    items = tmp_path / "items.jsonl"
    marks = {3: "POISON-A", 11: "POISON-B"}
    texts = [f"What is {n} and {n}? {marks.get(n, '')}" for n in range(20)]
    items.write_text("".join(json.dumps({"id": n, "text": t}) + "\n" for n, t in enumerate(texts)))
    with people(one, 10, rps=5) as without:
        pass
    alone = on_target(one)
    one.query(
        "WITH gone AS (DELETE FROM interactive_requests RETURNING 1) SELECT count(*) FROM gone"
    )
    with people(one, 25, rps=5) as beside:
        began = time.monotonic()
        submit = ("submit", "generate", str(items), "--prompt", "{{ text }}", "--key", "poisoned")
        one.json(*submit, "--model", "fake-chat", "--max-tokens", "8", "--id-field", "id")
        job = one.wait_completed("poisoned", 60)
        took_s = time.monotonic() - began
    assert (job["done"], job["failed"]) == (18, 2)
    assert took_s < 60
    codes = "SELECT string_agg(code, ',' ORDER BY seq) FROM results WHERE status = 'failed'"
    assert one.query(codes) == "connection,overloaded"
    assert beside[0]["failed"] == without[0]["failed"] == 0
    assert on_target(one) >= alone - 0.02
    assert one.query("SELECT count(*) FROM events WHERE type = 'endpoint_opened'") == 0


def on_target(one: Stack) -> float:
    """The share of people whose first token came within the pool's target."""
    in_time = "first_token_at - submitted_at <= interval '500 ms'"
    sql = f"SELECT avg(CASE WHEN {in_time} THEN 1.0 ELSE 0.0 END) FROM interactive_requests"
    return float(one.query(sql))
