"""Flower as it is shipped: chunks are found by their job's key, and a night of ticks hides none."""

from __future__ import annotations

import json
import re
import socket
import sys
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from app.local import commands
from app.local.commands import COLUMNS
from app.worker.looking import look
from tests.processes import Processes, Started, until, watched
from tests.rabbitmq import free_port, rabbitmq_at, rabbitmq_missing
from tests.rig import MakeRig, Rig

KEPT = 100
"""Of the 20,000 tasks that are kept; so the night has a two-hundredth of its ticks too."""
TICKS = 12 * 3600 * 36 // 10 // 200
WORD = "a-password"


class Flower:
    """A Flower of our own, by the command that `giveway up` starts."""

    def __init__(self, processes: Processes, **environment: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = commands.flower("127.0.0.1", port, str(processes.folder / "flower.db"))
        argv = [sys.executable, "-W", "ignore", "-m", *command, f"--max-tasks={KEPT}"]
        told = {**processes.environment, "FLOWER_BASIC_AUTH": f"giveway:{WORD}", **environment}
        self.process = Started(argv, told, processes.folder / "flower.log")
        processes.started.append(self.process)
        until(lambda: self.page("/healthcheck") is not None, 30, "Flower's start")

    def page(self, path: str, data: dict[str, Any] | None = None) -> str | None:
        """What it answers; None while it does not."""
        body = None if data is None else urllib.parse.urlencode(data).encode()
        request = urllib.request.Request(self.url + path, data=body)
        token = b64encode(f"giveway:{WORD}".encode()).decode()
        request.add_header("Authorization", f"Basic {token}")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return str(answer.read().decode())
        except (urllib.error.URLError, ConnectionError):
            return None

    def tasks(self) -> list[dict[str, Any]]:
        """All that it keeps."""
        return list(json.loads(self.page("/api/tasks?limit=10000") or "{}").values())

    def first_page(self, search: str) -> dict[str, Any]:
        """What its own page shows for a word in the search field, the newest first."""
        asked = {
            "draw": 1,
            "start": 0,
            "length": 10,
            "search[value]": search,
            "order[0][column]": 0,
            "order[0][dir]": "desc",
            "columns[0][data]": "received",
        }
        found: dict[str, Any] = json.loads(self.page(f"/tasks/datatable?{_query(asked)}") or "{}")
        return found


def _query(asked: dict[str, Any]) -> str:
    return urllib.parse.urlencode(asked)


def tick(app: Celery, count: int, one: Rig) -> None:
    """So many ticks, taken by the control worker before this returns."""
    with app.producer_or_acquire() as producer:
        for _ in range(count):
            app.send_task("giveway.control.tell", queue="control", producer=producer)
    until(lambda: look(one.wiring.settings).waiting["control"] == 0, 90, "the ticks")


def work(one: Rig, key: str, items: int) -> None:
    """A job of so many items, from its submission to its end."""
    job = one.submit([f"{key} {n}" for n in range(items)], key=key).job
    one.wiring.ringing.ring("main")
    until(lambda: one.job(job.id).state == "completed", 40, f"job {key}")


def night(one: Rig, processes: Processes) -> Flower:
    """An evening's job, the ticks of twelve hours, and a nightly job among them."""
    app = one.with_broker(processes.environment["GIVEWAY_BROKER__URL"])
    flower = Flower(processes)
    with watched(app):
        work(one, "evening", 100)
        tick(app, TICKS // 2, one)
        work(one, "nightly-1", 400)
        tick(app, TICKS // 2, one)
    return flower


def test_after_a_night_the_jobs_chunks_are_on_the_first_page(
    processes: Processes, rig: MakeRig
) -> None:
    one = rig()
    for queue in ("batch", "control"):
        processes.worker(queue, "-E").ready()
    flower = night(one, processes)
    until(lambda: flower.first_page("nightly-1").get("recordsFiltered") == 8, 20, "the chunks")
    rows = flower.first_page("nightly-1")["data"]

    assert len(rows) == 8
    for row in rows:
        assert (row["name"], row["state"]) == ("giveway.batch.embed", "SUCCESS")
        assert "'key': 'nightly-1', 'kind': 'embed'" in row["kwargs"]
        assert "'done': 50, 'failed': 0" in row["result"]
        assert row["worker"] == "batch@test"
    everything = flower.tasks()
    # Its history begins before the job, and holds nothing but chunks: no tick, no empty ring.
    assert flower.first_page("evening")["recordsFiltered"] == 2
    assert {task["name"] for task in everything} == {"giveway.batch.embed"}
    assert len(everything) == 10
    assert sum("evening 1" in str(task) or "nightly-1 1" in str(task) for task in everything) == 0


def test_mutant_whose_ticks_tell_of_themselves_forgets_the_evening(
    processes: Processes, rig: MakeRig
) -> None:
    one = rig()
    processes.worker("batch", "-E").ready()
    argv = [sys.executable, "-W", "ignore", "-m", "celery", "-A", "tests.noisy_ticks", "worker"]
    argv += [
        "-Q",
        "control",
        "-n",
        "control@test",
        "-P",
        "threads",
        "-c",
        "8",
        "-E",
        "--loglevel",
        "INFO",
    ]
    log = processes.folder / "noisy.log"
    processes.started.append(Started(argv, processes.environment, log))
    processes.started[-1].ready()
    flower = night(one, processes)
    until(lambda: len(flower.tasks()) == KEPT, 30, "a full history")
    until(lambda: flower.first_page("evening").get("recordsFiltered") == 0, 30, "the end of it")


def test_it_is_shut_without_the_password_and_remembers_over_a_restart(
    processes: Processes, rig: MakeRig
) -> None:
    one = rig()
    app = one.with_broker(processes.environment["GIVEWAY_BROKER__URL"])
    processes.worker("batch", "-E").ready()
    flower = Flower(processes)
    with watched(app):
        work(one, "nightly-1", 100)
    until(lambda: flower.first_page("nightly-1").get("recordsFiltered") == 2, 20, "the chunks")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{flower.url}/tasks", timeout=10)
    assert flower.process.end() == 0

    again = Flower(processes)
    assert again.first_page("nightly-1")["recordsFiltered"] == 2
    page = again.page("/tasks") or ""
    assert re.findall(r'<th data-column="(\w+)"', page) == COLUMNS.split(",")


def test_a_chunk_that_broke_is_a_failure_with_its_traceback(
    processes: Processes, rig: MakeRig
) -> None:
    one = rig()
    app = one.with_broker(processes.environment["GIVEWAY_BROKER__URL"])
    processes.worker("batch", "-E").ready()
    with watched(app) as events:
        job = one.submit(["a text"], key="broken").job
        one.execute("DROP TABLE embeddings CASCADE")
        one.wiring.ringing.ring("main")
        until(lambda: any(e["type"] == "task-failed" for e in events), 20, "the failure")
    (failed,) = [event for event in events if event["type"] == "task-failed"]

    assert one.job(job.id).key == "broken"
    assert "ProgrammingError" in failed["exception"]
    assert "Traceback" in failed["traceback"]
    assert "a text" not in json.dumps(events)


def test_a_ring_that_finds_nothing_leaves_no_trace(processes: Processes, rig: MakeRig) -> None:
    one = rig()
    app = one.with_broker(processes.environment["GIVEWAY_BROKER__URL"])
    worker = processes.worker("batch", "-E").ready()
    job = one.submit(["a text"], key="paused").job
    one.wiring.steering.pause("paused")
    with watched(app) as events:
        for _ in range(20):
            one.wiring.doorbell.ring([(job.id, "embed")])
        until(lambda: worker.said.count("'ended': 'paused'") == 20, 20, "twenty rings")
    assert [event["type"] for event in events if event["type"].startswith("task-")] == []


def lengths(flower: Flower) -> dict[str, int]:
    """Messages by queue, as its page of queues has them."""
    told = json.loads(flower.page("/api/queues/length") or '{"active_queues": []}')
    return {one["name"]: one.get("messages", 0) for one in told["active_queues"]}


def test_it_shows_the_lengths_of_the_queues_on_valkey(processes: Processes, rig: MakeRig) -> None:
    one = rig()
    one.with_broker(processes.environment["GIVEWAY_BROKER__URL"])
    one.wiring.doorbell.ring([(7, "embed")] * 3)

    assert lengths(Flower(processes)) == {"interactive": 0, "batch": 3, "control": 0}


@pytest.mark.rabbitmq
@pytest.mark.skipif(rabbitmq_missing() is not None, reason="RabbitMQ is not installed")
def test_it_shows_the_lengths_of_the_queues_on_rabbitmq(
    processes: Processes, rig: MakeRig, folder: Path
) -> None:
    port = free_port()
    one = rig()
    with rabbitmq_at(folder, management=port) as url:
        processes.environment["GIVEWAY_BROKER__URL"] = url
        one.with_broker(url)
        one.wiring.doorbell.ring([(7, "embed")] * 3)
        api = f"http://guest:guest@127.0.0.1:{port}/api/"
        flower = Flower(processes, FLOWER_BROKER_API=api)
        # The management counts every few seconds.
        until(lambda: lengths(flower).get("batch") == 3, 30, "the length of the queue")
        assert api not in " ".join(commands.flower("127.0.0.1", 1, "x"))
        one.close()
        processes.end()
