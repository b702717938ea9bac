"""Four endpoints behind one pool, none of whose faults reach the job or the people."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psycopg
import pytest

from app.inference.simulated.embeddings import embedder
from tests.acceptance.stack import Stack, documents
from tests.served import Served, serving
from tests.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(400)]

NAMES = ("dies", "slow", "refuses", "spoils")
ITEMS = int(os.environ.get("TEST_ROWS", "6000"))
"""The issue's figure is of 20,000: TEST_ROWS=20000."""
TARGET_MS = 500
_POOL = f"""
[[pools]]
name = "main"
total = 32
batch_max = 28
target_p95_ms = {TARGET_MS}
"""
_ENDPOINT = """
[[endpoints]]
name = "{name}"
kind = "simulated"
base_url = "{url}"
models = ["fake-chat", "fake-embed"]
max_concurrency = 8
"""
_SHARE = """
    SELECT avg(CAST(state = 'done' AND finished_at - submitted_at
        <= make_interval(secs => {seconds}) AS int))
    FROM interactive_requests WHERE submitted_at > now() - make_interval(secs => {since_s})
"""


@pytest.fixture
def servers() -> Iterator[dict[str, Served]]:
    with ExitStack() as all_of_them:
        yield {
            name: all_of_them.enter_context(serving("--places", "8", "--ledger")) for name in NAMES
        }


@pytest.fixture
def one(servers: dict[str, Served], prepared: Path) -> Iterator[Stack]:
    with TemporaryDirectory(prefix="giveway-") as folder:
        made = Stack(Path(folder), servers["slow"], prepared)
        declared = [_ENDPOINT.format(name=n, url=s.url) for n, s in servers.items()]
        made.config.write_text(_POOL + "".join(declared))
        made.up()
        try:
            yield made
        finally:
            made.down()


class Grave:
    """Listens where a killed endpoint was, and closes each connection unanswered."""

    def __init__(self, url: str) -> None:
        self.knocks = 0
        self._socket = socket.create_server(("127.0.0.1", urlsplit(url).port or 0))
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self) -> None:
        while True:
            try:
                knock, _ = self._socket.accept()
            except OSError:
                return
            self.knocks += 1
            knock.close()

    def close(self) -> None:
        self._socket.close()


@contextmanager
def people(stack: Stack, seconds: int) -> Iterator[dict[str, Any]]:
    """Somebody asks four times a second; afterwards the dictionary holds what they got."""
    argv = [sys.executable, "-m", "app.cli.main", "load", "--rps", "4", "--seconds", str(seconds)]
    argv += ["--model", "fake-chat", "--max-tokens", "8", "--json"]
    got: dict[str, Any] = {}
    began = time.monotonic()
    with subprocess.Popen(
        argv, env=stack.environment, cwd=stack.folder, stdout=subprocess.PIPE
    ) as running:
        try:
            yield got
            out, _ = running.communicate(timeout=seconds + 60)
            got |= json.loads(out)
        finally:
            running.kill()
    since_s = time.monotonic() - began
    sql = _SHARE.format(seconds=TARGET_MS / 1000, since_s=since_s)
    got["share"] = float(stack.query(sql))


def state_of(stack: Stack, name: str) -> str:
    found = stack.json("endpoints", "list")["endpoints"]
    return next(str(one["state"]) for one in found if one["name"] == name)


def wrong_vectors(stack: Stack) -> int:
    """How many stored vectors are not those of their texts."""
    with psycopg.connect(stack.database_url) as connection:
        rows = connection.execute(
            "SELECT i.payload->>'text', e.vector::text FROM embeddings e"
            " JOIN items i ON i.job_id = e.job_id AND i.seq = e.seq ORDER BY e.key"
        ).fetchall()
    expected = embedder()([text for text, _ in rows])
    stored = np.array([json.loads(vector) for _, vector in rows], dtype=np.float32)
    return int((np.abs(stored - expected).max(axis=1) > 1e-4).sum())


def test_a_dead_a_slow_a_refusing_and_a_spoiling_endpoint_cost_no_item_and_no_person(
    one: Stack, servers: dict[str, Served], tmp_path: Path
) -> None:
    docs = documents(tmp_path / "docs.jsonl", ITEMS)
    one.submit(documents(tmp_path / "healthy.jsonl", ITEMS), "healthy")
    with people(one, 15) as healthy:
        pass
    one.wait_completed("healthy")
    one.json("submit", "embed", str(docs), "--id-field", "id", "--text-field", "text",
             "--collection", "second", "--model", "fake-embed", "--key", "faulty")  # fmt: skip
    with people(one, 30) as faulty:
        one.wait_done("faulty", 1000)
        servers["slow"].order({"kind": "slow", "factor": 3})
        servers["refuses"].order(
            {"kind": "status", "status": 429, "retry_after": "2", "remaining": 12}
        )
        servers["spoils"].order(
            {"kind": "vectors", "mode": "nan", "probability": 0.6},
            {"kind": "vectors", "mode": "short", "probability": 0.5},
        )
        servers["dies"].process.send_signal(signal.SIGKILL)
        servers["dies"].process.wait(5)
        grave = Grave(servers["dies"].url)
        until(lambda: state_of(one, "dies") in ("open", "half-open"), 20, "the open breaker")
        time.sleep(1)  # What was on its way has arrived.
        knocks = grave.knocks
    job = one.wait_completed("faulty", 120)
    since = grave.knocks - knocks
    grave.close()
    probes = one.query(
        "SELECT count(*) FROM events WHERE type = 'endpoint_probed' AND endpoint = 'dies'"
    )

    assert (job["state"], job["done"], job["failed"]) == ("completed", ITEMS, 0)
    assert wrong_vectors(one) == 0
    assert one.query("SELECT count(*) FROM embeddings") == 2 * ITEMS
    assert 1 <= since <= probes + 1
    assert faulty["failed"] == 0
    assert faulty["share"] >= healthy["share"] - 0.05
