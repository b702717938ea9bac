"""Automatic scaling on the whole stack: out under a long queue, in when idle, nobody notices."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from tests.acceptance.conftest import MakeStack
from tests.acceptance.stack import Stack, documents
from tests.acceptance.test_faults import people
from tests.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(300)]

MAXIMUM = 3
SCALING = {
    "pool": "main",
    "minimum": 0,
    "maximum": MAXIMUM,
    "backlog_per_endpoint": 8,
    "hold_s": 1,
    "out_cooldown_s": 1,
    "in_cooldown_s": 4,
    "kind": "simulated",
    "models": ["fake-chat", "fake-embed"],
    "max_concurrency": 8,
    "command": [
        *(sys.executable, "-m", "app.inference.simulated", "--host", "{host}", "--port", "{port}"),
        *("--places", "8", "--models", "fake-chat", "fake-embed"),
    ],
}


def serving(one: Stack) -> int:
    return int(one.query("SELECT count(*) FROM endpoints WHERE added IS NOT NULL AND NOT draining"))


def servers(one: Stack) -> list[int]:
    """Processes of the stack that serve an added endpoint."""
    family = psutil.Process(one.pids()["scaling"]).children(recursive=True)
    found = []
    for process in family:
        with suppress(psutil.NoSuchProcess):  # It ended just now; a zombie counts as such, too.
            if "app.inference.simulated" in process.cmdline():
                found.append(process.pid)
    return found


def test_a_queue_of_ten_times_the_capacity_scales_out_and_idleness_in_and_no_request_fails(
    stack: MakeStack, tmp_path: Path
) -> None:
    one = stack(GIVEWAY_SCALING=json.dumps([SCALING]))
    # 188 requests of 64 items for 8 places, and as many again while it scales.
    one.submit(documents(tmp_path / "docs.jsonl", 12_000), "nightly-1")
    until(lambda: serving(one) == MAXIMUM, 60, "the maximum")
    assert len(servers(one)) == MAXIMUM
    assert one.json("throttle", "show")["pools"][0]["batch_in_flight"] >= 0
    one.submit(documents(tmp_path / "more.jsonl", 3_000), "nightly-2")
    with people(one, 40) as report:
        jobs = [one.wait_completed(key) for key in ("nightly-1", "nightly-2")]
        until(lambda: serving(one) == 0, 60, "the way in")
        until(lambda: servers(one) == [], 30, "the end of the servers")

    assert [(job["failed"], job["state"]) for job in jobs] == [(0, "completed")] * 2
    assert report[0]["failed"] == 0
    assert one.query("SELECT count(*) FROM batch_calls WHERE error_code IS NOT NULL") == 0
    assert one.query("SELECT count(DISTINCT endpoint) FROM batch_calls") >= 3  # the new ones work
    found = one.json("report", "--since", "10m")
    wanted = [e["facts"]["wanted"] for e in found["events"] if e["type"].startswith("scaled_")]
    steps = [b - a for a, b in pairwise([0, *wanted])]
    assert steps == [1] * MAXIMUM + [-1] * MAXIMUM
    assert {e["state"] for e in found["endpoints"]} == {"ok", "removed"}
