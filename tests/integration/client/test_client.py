"""Giveway from Python, on real workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from app.client import Giveway, Source
from app.errors import BadSource, KeyConflict, NotFound, StateConflict, UsageError
from tests.processes import Processes
from tests.rig import MakeRig, Rig
from tests.served import Served


@pytest.fixture
def quiet(
    tmp_path: Path,
    migrated_url: str,
    endpoint: Served,
    rig: MakeRig,
    monkeypatch: pytest.MonkeyPatch,
) -> Rig:
    """The environment of a stack without workers, whose broker is down."""
    refused = "redis://127.0.0.1:1/0"
    for name, value in Processes(tmp_path, migrated_url, refused, endpoint.url).environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return rig()


@pytest.fixture
def giveway(quiet: Rig) -> Iterator[Giveway]:
    with Giveway() as one:
        yield one


def items(count: int) -> list[dict[str, object]]:
    return [{"id": f"d{n}", "text": f"text number {n}"} for n in range(count)]


def test_dicts_become_a_job_once_and_its_results_come_back(giveway: Giveway, quiet: Rig) -> None:
    asked = {"model": "fake-embed", "collection": "docs", "key": "k"}
    job = giveway.submit("embed", iter(items(30)), **asked)
    again = giveway.submit("embed", items(30), **asked)

    assert (job.id, job.created, again.created) == (again.id, True, False)
    assert job.standing().state == "ready"
    with pytest.raises(TimeoutError, match="ready"):
        job.wait(timeout_s=0.2)
    quiet.work(job.id)
    assert job.wait().must_be_ok().progress.done == 30
    results = list(job.results())
    assert [one["key"] for one in results] == [f"d{n}" for n in range(30)]
    assert {one["status"] for one in results} == {"done"}
    assert giveway.search("docs", "text number 7", 1)[0].key == "d7"
    with pytest.raises(KeyConflict):
        giveway.submit("embed", items(3), **asked)


def test_a_file_is_read_as_the_command_line_reads_it(giveway: Giveway, quiet: Rig) -> None:
    Path("docs.jsonl").write_text("\n".join(json.dumps(item) for item in items(20)))
    source = Source("docs.jsonl", id_field="id", limit=5)
    job = giveway.submit(
        "embed",
        source,
        model="fake-embed",
        collection="docs",
        options={"priority": 3, "tenant": "research", "window": "00:00-23:59", "weight": 2.0},
    )
    assert quiet.work(job.id).total == 5
    kept = job.standing().job
    assert (kept.priority, kept.tenant, kept.weight) == (3, "research", 2.0)
    assert kept.window == {"from": "00:00", "to": "23:59", "timezone": "UTC"}


def test_a_job_is_steered_and_failures_are_tried_again_by_code(
    giveway: Giveway, quiet: Rig
) -> None:
    job = giveway.submit("embed", items(20), model="fake-embed", collection="docs")
    job.pause()
    assert giveway.job(job.key).state == "paused"
    job.resume()
    quiet.work(job.id)
    quiet.execute("UPDATE results SET status = 'failed', code = 'timeout' WHERE seq <= 4")
    quiet.execute("UPDATE chunks SET failed = 4, ok = ok - 4")
    with pytest.raises(StateConflict, match="4 of 20 items failed"):
        job.wait().must_be_ok()
    assert [one["code"] for one in job.failures()] == ["timeout"] * 4
    assert (job.retry(["too_long"]), job.retry(["timeout"])) == (0, 4)
    quiet.work(job.id)
    assert job.wait().ok
    other = giveway.submit("embed", items(3), model="fake-embed", collection="c", key="other")
    other.cancel()
    assert [one.key for one in giveway.jobs(states=["cancelled"])] == ["other"]


def test_schedules_have_the_verbs_of_the_command_line(giveway: Giveway, quiet: Rig) -> None:
    Path("docs.jsonl").write_text("\n".join(json.dumps(item) for item in items(4)))
    giveway.schedules.add(
        "nightly",
        "embed",
        "docs.jsonl",
        cron="0 2 * * *",
        timezone="Europe/Berlin",
        missed="all",
        overlap="queue",
        options={"tenant": "research"},
        model="fake-embed",
        collection="docs",
    )
    assert [one.name for one in giveway.schedules.list()] == ["nightly"]
    assert len(giveway.schedules.next("nightly", 3)) == 3
    assert giveway.schedules.pause("nightly").state == "paused"
    assert giveway.schedules.resume("nightly").state == "active"
    job = giveway.schedules.run("nightly")
    assert quiet.work(job.id).tenant == "research"
    assert giveway.schedules.history("nightly")[0].job_state == "completed"
    giveway.schedules.remove("nightly")
    with pytest.raises(NotFound):
        giveway.schedules.get("nightly")


def test_what_cannot_be_is_told(giveway: Giveway, quiet: Rig) -> None:
    with pytest.raises(UsageError, match="colour"):
        giveway.submit("embed", items(1), model="fake-embed", options={"colour": "red"})
    with pytest.raises(BadSource, match="item 2"):
        giveway.submit("embed", [{"text": "a"}, {"text": object()}], model="fake-embed")
    with pytest.raises(NotFound):
        giveway.job("nothing")
    with pytest.raises(UsageError, match="blank"):
        giveway.ask(" ", model="fake-chat")
    assert giveway.report(60.0).pools


@pytest.mark.slow
def test_people_and_batch_through_real_workers(
    quiet: Rig,
    fresh_broker_url: str,
    migrated_url: str,
    endpoint: Served,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GIVEWAY_BROKER__URL", fresh_broker_url)
    processes = Processes(tmp_path, migrated_url, fresh_broker_url, endpoint.url)
    try:
        workers = [processes.worker("interactive"), processes.worker("batch")]
        workers.append(processes.worker("control"))
        for worker in workers:
            worker.ready()
        processes.beat()
        with Giveway() as giveway:
            job = giveway.submit("embed", items(200), model="fake-embed", collection="docs")
            answer = giveway.ask("What is a queue?", model="fake-chat", max_tokens=8, priority=5)
            vectors = giveway.embed(["one", "two"], model="fake-embed")

            assert answer.text
            assert (answer.model, answer.endpoint) == ("fake-chat", "sim")
            assert (vectors.shape[0], vectors.dtype) == (2, np.float32)
            assert job.wait(timeout_s=60).must_be_ok().progress.done == 200
    finally:
        processes.end()
