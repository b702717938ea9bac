"""What people do, by the commands of the README, on a whole stack."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from app.local.bare import embedded_valkey_at
from tests.acceptance.conftest import MakeStack
from tests.acceptance.stack import Stack, documents
from tests.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_backfill_from_submission_to_search(shared: Stack, tmp_path: Path) -> None:
    backfill_to_search(shared, tmp_path)


@pytest.mark.rabbitmq
def test_a_backfill_from_submission_to_search_on_rabbitmq(
    stack: MakeStack, rabbitmq_url: str, tmp_path: Path
) -> None:
    backfill_to_search(stack(GIVEWAY_BROKER__URL=rabbitmq_url), tmp_path)


def backfill_to_search(one: Stack, tmp_path: Path) -> None:
    docs = documents(tmp_path / "docs.jsonl", 3000)
    submit = (
        *("submit", "embed", str(docs), "--id-field", "id", "--text-field", "text"),
        *("--collection", "docs", "--model", "fake-embed", "--key", "nightly-1", "--wait"),
    )
    job = one.json(*submit)
    assert (job["state"], job["total"], job["done"], job["failed"]) == ("completed", 3000, 3000, 0)

    text = json.loads(docs.read_text().splitlines()[2718])["text"]
    found = one.json("search", "docs", text, "--limit", "3")
    assert (found["hits"][0]["key"], found["hits"][0]["text"]) == ("d2718", text)

    exported = tmp_path / "out.jsonl"
    assert one.run("export", "docs", "--format", "jsonl", "--output", str(exported)).returncode == 0
    rows = [json.loads(line) for line in exported.read_text().splitlines()]
    assert len({row["key"] for row in rows}) == 3000
    assert {len(row["vector"]) for row in rows} == {256}
    assert set(rows[0]) == {"key", "hash", "model", "vector"}

    before = one.endpoint.ledger()["inputs"]
    again = one.json(*[a.replace("nightly-1", "nightly-2") for a in submit])
    assert (again["unchanged"], one.endpoint.ledger()["inputs"]) == (3000, before)

    load = one.json(
        *("load", "--rps", "5", "--seconds", "4", "--model", "fake-chat", "--max-tokens", "8")
    )
    assert load["sent"] == load["ok"] > 5
    assert 0 < load["p50_ms"] <= load["p95_ms"] <= load["p99_ms"]
    answer = one.run("ask", "What is it? It is a test of asking.", "--model", "fake-chat")
    assert answer.returncode == 0
    assert "asking" in answer.stdout


def test_twenty_submissions_at_once_are_one_job(shared: Stack, tmp_path: Path) -> None:
    docs = documents(tmp_path / "docs.jsonl", 5000)
    with ThreadPoolExecutor(20) as pool:
        jobs = list(pool.map(lambda _: shared.submit(docs, "twenty", "twenty"), range(20)))
    assert {job["job"] for job in jobs} == {jobs[0]["job"]}
    assert sum(job["created"] for job in jobs) == 1

    other = documents(tmp_path / "other.jsonl", 10)
    refused = shared.run(
        *("submit", "embed", str(other), "--id-field", "id", "--text-field", "text"),
        *("--collection", "twenty", "--model", "fake-embed", "--key", "twenty"),
    )
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert "twenty" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_without_a_broker_submitting_takes_a_moment_and_the_job_runs_later(
    stack: MakeStack, tmp_path: Path
) -> None:
    folder = Path(tmp_path / "valkey")
    folder.mkdir()
    with embedded_valkey_at(folder) as url:
        port = int(url.rsplit(":", 1)[1].split("/")[0])
        one = stack(GIVEWAY_BROKER__URL=url)
        docs = documents(tmp_path / "docs.jsonl", 1000)
        _, with_broker_s = timed_submit(one, documents(tmp_path / "warm.jsonl", 1000), "warm")
    submitted, took_s = timed_submit(one, docs, "nightly-1")

    assert submitted["state"] in ("ready", "running")
    # A whole command, most of it the start of Python: what the broker's absence adds is a moment.
    assert took_s < 2.5 * with_broker_s
    with embedded_valkey_at(folder, port=port):
        assert one.wait_completed("nightly-1")["done"] == 1000
        one.down()


def timed_submit(one: Stack, docs: Path, key: str) -> tuple[Any, float]:
    """The document, and the seconds that the command took."""
    began = time.monotonic()
    submitted = one.submit(docs, key)
    return submitted, time.monotonic() - began


def test_flower_finds_a_job_and_keeps_its_history(shared: Stack, tmp_path: Path) -> None:
    one = shared
    one.submit(documents(tmp_path / "docs.jsonl", 2000), "in-flower", "in-flower")
    job = one.wait_completed("in-flower")

    def tasks() -> dict[str, Any]:
        return flower(one, "/api/tasks?limit=1000")

    def of_job() -> list[dict[str, Any]]:
        wanted = f"'job': {job['id']},"
        return [task for task in tasks().values() if wanted in (task["kwargs"] or "")]

    until(lambda: len(of_job()) >= 4, 20, "Flower's view of the job")
    assert {task["name"] for task in of_job()} == {"giveway.batch.embed"}
    searched = flower(one, "/api/tasks?limit=1000&search=in-flower")
    assert set(searched) == {task["uuid"] for task in of_job()}
    searched = flower(one, f"/api/tasks?limit=1000&search=kwargs:job={job['id']}")
    assert set(searched) == {task["uuid"] for task in of_job()}
    assert not flower(one, "/api/tasks?limit=1000&search=kwargs:job=987654")
    workers = {name.split("@")[0] for name in flower(one, "/api/workers?refresh=1")}
    assert workers == {"interactive", "batch", "control"}

    shown_at = time.time()
    until(lambda: last_saved_at(one) > shown_at, 30, "Flower's next save")
    one.kill("flower")
    until(lambda: len(of_job()) >= 4, 20, "Flower's memory")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{one.state.addresses.flower_url}/workers", timeout=5)


def last_saved_at(one: Stack) -> float:
    """When Flower last wrote its history; the file's ending depends on Python's dbm."""
    files = (one.data / "flower").glob("flower.db*")
    return max((file.stat().st_mtime for file in files), default=0.0)


def flower(one: Stack, path: str) -> Any:
    """What Flower's API answers; {} while it does not."""
    about = one.state.addresses
    word = Path(about.flower_password_file or "").read_text().strip()
    request = urllib.request.Request(f"{about.flower_url}{path}")
    token = b64encode(f"{about.flower_user}:{word}".encode()).decode()
    request.add_header("Authorization", f"Basic {token}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)
    except (urllib.error.URLError, ConnectionError):
        return {}


def test_ctrl_c_ends_everything(stack: MakeStack) -> None:
    one = stack(up=False)
    running = subprocess.Popen(
        [sys.executable, "-m", "app.cli.main", "up"],
        env=one.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: one.is_ready, 40, "the start")
    pids = one.pids().values()
    running.send_signal(signal.SIGINT)
    assert running.wait(30) == 0
    assert not any(Path(f"/proc/{pid}/cmdline").exists() and _alive(pid) for pid in pids)


def _alive(pid: int) -> bool:
    import psutil

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
