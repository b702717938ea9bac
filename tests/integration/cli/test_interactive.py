"""`giveway ask` and `giveway load`, through a real interactive worker."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.domain.load import LoadPlan
from app.worker.load import run_load
from tests.commands import done, giveway
from tests.processes import Processes
from tests.rabbitmq import rabbitmq_at, rabbitmq_missing
from tests.rig import MakeRig, Rig
from tests.served import Served
from tests.waiting import until

SECRET = "the prompt that nobody else may read"


@pytest.fixture
def processes(
    tmp_path: Path,
    stack: Rig,
    migrated_url: str,
    fresh_broker_url: str,
    endpoint: Served,
    monkeypatch: pytest.MonkeyPatch,
) -> Processes:
    """The command line with a broker; workers are started by the test."""
    monkeypatch.setenv("GIVEWAY_BROKER__URL", fresh_broker_url)
    one = Processes(tmp_path, migrated_url, fresh_broker_url, endpoint.url)
    yield one
    one.end()


@pytest.fixture
def worker(processes: Processes) -> Processes:
    """With an interactive worker that is ready."""
    processes.worker("interactive").ready()
    return processes


def test_asking_answers_and_says_where_from(worker: Processes) -> None:
    ran = giveway("ask", f"Say it. {SECRET}.", "--max-tokens", "8")
    said = done("ask", "Say it again. Anything.", "--max-tokens", "8")

    assert ran.code == 0
    assert len(ran.out.split()) >= 3
    assert ran.err.startswith("fake-chat at sim: first token after ")
    assert {"text", "model", "endpoint", "first_token_ms", "total_ms", "round_trip_ms"} <= set(said)
    assert said["completion_tokens"] == 8
    assert SECRET not in worker.started[0].said


def test_an_endpoints_error_is_the_askers_error(worker: Processes, endpoint: Served) -> None:
    endpoint.order({"kind": "status", "status": 500})
    ran = giveway("ask", "hello there", "--json")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("giveway: ")
    assert "unexpected" not in ran.err


def test_without_a_worker_the_wait_has_an_end(processes: Processes) -> None:
    ran = giveway("ask", "hello there", "--timeout", "0.5")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("giveway: no answer within 0.5 s; does the interactive worker run?")


@pytest.mark.parametrize("command", [("ask", "hello there"), ("load", "--seconds", "1")])
def test_a_broker_that_is_down_is_said_at_once(
    stack: Rig, command: tuple[str, ...], knocks: list[tuple[str, float]]
) -> None:
    ran = giveway(*command)

    assert [address for address, _ in knocks] == ["127.0.0.1:1"], "once, and not again"
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "giveway: the broker at redis://:***@127.0.0.1:1/0 does not answer\n"


def test_load_says_what_people_waited(worker: Processes, rig: MakeRig) -> None:
    said = done(
        "load", "--rps", "20", "--seconds", "2", "--max-tokens", "8", "--model", "fake-chat"
    )

    assert said["sent"] == said["ok"] > 20
    assert (said["failed"], said["errors"]) == (0, {})
    assert 0 < said["p50_ms"] <= said["p95_ms"] <= said["p99_ms"] <= said["max_ms"]
    assert 0 < said["first_token_p50_ms"] <= said["p50_ms"]
    rows = rig().one("SELECT count(*) FROM interactive_requests WHERE state = 'done'")
    assert rows == said["sent"]


def test_load_of_embeddings_is_load_too(worker: Processes) -> None:
    ran = giveway("load", "--kind", "embed", "--rps", "20", "--seconds", "1", "--steady")

    assert ran.code == 0
    assert "sent        20 in " in ran.out
    assert "\nP95         " in ran.out


def test_failures_are_counted_by_their_code(worker: Processes, endpoint: Served) -> None:
    endpoint.order({"kind": "status", "status": 500})
    ran = giveway("load", "--rps", "4", "--seconds", "1", "--steady", "--json")

    assert (ran.code, ran.document["ok"], ran.document["p95_ms"]) == (1, 0, None)
    assert ran.document["errors"] == {"server_error": 4}


def test_a_late_start_of_the_worker_is_waited_for_and_counted(processes: Processes) -> None:
    """No coordinated omission: who came before the worker did waited for all of that time."""
    ready = threading.Timer(0.5, lambda: processes.worker("interactive"))
    ready.start()
    said = done("load", "--rps", "10", "--seconds", "1", "--steady", "--timeout", "120")
    ready.join()

    assert said["ok"] == 10
    assert said["max_ms"] > 500
    assert said["late_p99_ms"] < said["max_ms"] / 2, "sent at their times, whoever answers"


def queued(client: Any) -> int:
    """Messages for the interactive worker; each priority has a list of its own."""
    return sum(client.llen(key) for key in client.keys("interactive*"))


def test_a_run_that_is_stopped_ends_soon_and_leaves_no_connection(
    processes: Processes, rig: MakeRig, fresh_broker_url: str
) -> None:
    import redis

    app = rig().with_broker(fresh_broker_url)
    stop = threading.Event()
    plan = LoadPlan("fake-chat", rps=40, seconds=600, poisson=False, timeout_s=600)
    with redis.Redis.from_url(fresh_broker_url) as client, ThreadPoolExecutor(1) as other:
        running = other.submit(run_load, app, plan, stop=stop)
        try:
            until(lambda: queued(client) >= 10, 20, "ten who wait")
        finally:
            stop.set()
        report = running.result(120)  # Of the twenty minutes that it would take.
        app.close()
        subscribed = client.pubsub_numpat(), client.pubsub_channels("*task*")

    assert report.sent == 0, "nobody answered"
    assert subscribed == (0, [])


@pytest.mark.rabbitmq
@pytest.mark.skipif(rabbitmq_missing() is not None, reason="RabbitMQ is not installed")
def test_rabbitmq_carries_people_as_well(
    stack: Rig,
    migrated_url: str,
    folder: Path,
    endpoint: Served,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with rabbitmq_at(folder) as url, closing(_Ended(folder, migrated_url, url, endpoint)) as both:
        monkeypatch.setenv("GIVEWAY_BROKER__URL", url)
        both.processes.worker("interactive").ready()
        asked = done("ask", "hello there", "--max-tokens", "8")
        loaded = done("load", "--rps", "20", "--seconds", "2", "--max-tokens", "8")

    assert asked["completion_tokens"] == 8
    assert loaded["ok"] == loaded["sent"] > 20


class _Ended:
    """Processes that end with the block."""

    def __init__(self, folder: Path, database_url: str, url: str, endpoint: Served) -> None:
        self.processes = Processes(folder, database_url, url, endpoint.url)
        self.close = self.processes.end


def test_the_simulated_endpoint_serves_until_it_is_told_to_end() -> None:
    command = [sys.executable, "-m", "app.cli.main", "simulated-endpoint", "--models", "a,b"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        url = said.removeprefix("listening on ").strip()
        models = httpx2.get(f"{url}/models").json()["data"]
        process.terminate()
        assert process.wait(60) == 0

    assert [model["id"] for model in models] == ["a", "b"]


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = giveway("simulated-endpoint", "--port", port)

    assert (ran.code, ran.err) == (
        2,
        f"giveway: cannot listen on 127.0.0.1:{port}: Address already in use\n",
    )
