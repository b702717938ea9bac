"""Giveway from Python, on real workers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import celery._state
import numpy as np
import pytest

from app.client import AsyncGiveway, Giveway, Source
from app.errors import (
    BadParams,
    BadSource,
    ConfigError,
    KeyConflict,
    NotFound,
    StateConflict,
    UnknownName,
    UsageError,
)
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


def test_waiting_ends_where_the_job_needs_a_person(giveway: Giveway, quiet: Rig) -> None:
    job = giveway.submit("embed", items(20), model="fake-embed", collection="docs", key="k")
    quiet.execute("UPDATE jobs SET budget = 1.0")
    quiet.execute("UPDATE chunks SET money = 1.02")
    quiet.work(job.id)

    standing = job.wait(timeout_s=60)
    assert (standing.stuck, standing.ended, standing.ok) == (True, False, False)
    said = r"paused \(budget: spent 1.02 of 1.00\); .* then giveway jobs resume k$"
    with pytest.raises(StateConflict, match=said):
        standing.must_be_ok()
    job.resume(budget=2.0)
    quiet.work(job.id)
    assert job.wait(timeout_s=60).ok


def test_waiting_goes_on_while_a_person_has_paused_the_job(giveway: Giveway, quiet: Rig) -> None:
    job = giveway.submit("embed", items(20), model="fake-embed", collection="docs")
    job.pause()
    with pytest.raises(TimeoutError, match="paused"):
        job.wait(timeout_s=0.3)


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


def test_what_it_would_take_is_told_and_nothing_is_written(giveway: Giveway, quiet: Rig) -> None:
    said = giveway.estimate("embed", items(30), model="fake-embed", collection="docs")
    assert (said.items, said.to_send, said.calls) == (30, 30, 3)
    assert giveway.jobs() == []
    asked = {"model": "fake-chat", "prompt": "{{ title }}: {{ text }}", "max_tokens": 8}
    rows = [{"text": "a", "title": "One"}, {"text": "b", "title": "Two"}]
    assert giveway.estimate("generate", rows, **asked).completion_tokens.value == 16
    with pytest.raises(UsageError, match="looks at 'title' of each item"):
        giveway.estimate("generate", [{"text": "a"}], **asked)


def test_evaluations_are_run_read_and_compared(giveway: Giveway, quiet: Rig) -> None:
    rows = [{"text": f"{n} + 1?", "expected": str(n + 1), "output": str(n + 1)} for n in range(8)]
    worse = [{**row, "output": "no idea"} if n < 2 else row for n, row in enumerate(rows)]
    for key, given in (("a", rows), ("b", worse)):
        quiet.work(giveway.evaluate(given, scorers=["numeric"], key=key).id)
    found = giveway.evaluation("b")
    assert (found.summary.metrics["numeric"].correct, found.refused) == (6, None)
    pair = giveway.compare("a", "b").comparison.metrics["numeric"]
    assert (pair.lost, pair.won, len(pair.flips)) == (2, 0, 2)

    Path("rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    asked = {"prompt": "{{ output }}: {{ text }}", "expected_field": "expected", "max_tokens": 8}
    job = giveway.evaluate("rows.jsonl", model="fake-chat", scorers=["exact"], **asked)
    assert quiet.work(job.id).state == "completed"
    assert giveway.evaluation(job.key).summary.n == 8
    for wrong in ({}, {"model": "fake-chat", "output_field": "output"}):
        with pytest.raises(UsageError, match="name a model, or the field"):
            giveway.evaluate("rows.jsonl", scorers=["exact"], **wrong)


def test_collections_have_the_verbs_of_the_command_line(
    giveway: Giveway, quiet: Rig, database_url: str
) -> None:
    job = giveway.submit("embed", items(30), model="fake-embed", collection="docs")
    quiet.work(job.id)
    docs = giveway.collections
    assert [(one.name, one.vectors) for one in docs.list()] == [("docs", 30)]
    assert docs.verify("docs").sound
    assert (docs.index("docs").indexed, docs.drop_index("docs").indexed) == (True, False)
    vectors = list(docs.vectors("docs"))
    assert (len(vectors), vectors[0]["vector"].dtype) == (30, np.float32)
    assert docs.export("docs", "vectors.parquet").format == "parquet"
    target = {"create": True, "id_column": "doc"}
    assert docs.export_to("docs", database_url, "theirs", **target).rows == 30
    with pytest.raises(UsageError, match="holds vectors of model 'fake-embed' already"):
        docs.reembed("docs", "fake-embed")
    with pytest.raises(NotFound, match="nothing was made to replace"):
        docs.swap("docs")
    assert docs.delete("docs") == 30
    assert docs.list() == []


def test_a_collection_is_embedded_again_and_swapped(giveway: Giveway, quiet: Rig) -> None:
    quiet.work(giveway.submit("embed", items(9), model="fake-embed", collection="docs").id)
    job = giveway.collections.reembed("docs", "fake-chat", into="docs-2")
    assert (job.created, job.standing().progress.total) == (True, 9)
    assert giveway.collections.stats("docs-2").replaces == "docs"
    assert giveway.collections.swap("docs", force=True) == ("docs-2", "docs--fake-embed")


def test_limits_and_endpoints_are_steered(giveway: Giveway, quiet: Rig, endpoint: Served) -> None:
    assert giveway.throttle.set(3, for_s=60, reason="a release").override is not None
    assert (giveway.throttle.clear(), giveway.throttle.clear()) == (True, False)
    assert giveway.throttle.tune({"batch_max": 7}).batch_max == 7
    assert (giveway.throttle.untune().batch_max, giveway.throttle.history()) == (31, [])
    spec = giveway.endpoints.add("late", endpoint.url, ["extra"], requests_per_minute=60)
    assert (spec.pool, spec.requests_per_minute) == ("main", 60)
    giveway.endpoints.drain("late")
    giveway.endpoints.undrain("late")
    assert {one.name for one in giveway.endpoints.list()} == {"sim", "late"}
    assert giveway.endpoints.remove("late")
    with pytest.raises(ConfigError, match="base_url"):
        giveway.endpoints.add("odd", "gpu-b:8000", ["m"])


def test_results_are_written_out_while_the_job_runs(giveway: Giveway, quiet: Rig) -> None:
    job = giveway.submit("embed", items(100), model="fake-embed", collection="docs")
    quiet.wiring.execution.run(job.id)
    assert job.state == "running"
    assert job.export("results.csv").rows == 50
    assert len(list(job.results())) == 50
    quiet.work(job.id)
    assert job.export("results.csv").rows == 100


def test_a_job_past_its_budget_goes_on_with_a_larger_one(giveway: Giveway, quiet: Rig) -> None:
    options = {"budget": 0.5, "webhook": {"url": "http://127.0.0.1:1/h", "secret_env": "HOOK"}}
    job = giveway.submit("embed", items(5), model="fake-embed", collection="c", options=options)
    job.pause()
    job.resume(budget=2.0)
    assert job.standing().job.budget == 2.0
    quiet.work(job.id)
    assert [one["state"] for one in job.webhooks()] == ["waiting"]


def test_what_cannot_be_is_told(giveway: Giveway, quiet: Rig) -> None:
    asked = {"model": "fake-embed", "collection": "c"}
    with pytest.raises(UsageError, match="colour"):
        giveway.submit("embed", items(1), **asked, options={"colour": "red"})
    with pytest.raises(BadSource, match="item 2"):
        giveway.submit("embed", [{"text": "a"}, {"text": object()}], **asked)
    with pytest.raises(NotFound):
        giveway.job("nothing")
    with pytest.raises(UnknownName, match="no job state 'done'; known: cancelled"):
        giveway.jobs(states=["done"])
    nightly = {**asked, "cron": "0 2 * * *"}
    with pytest.raises(UnknownName, match="known: all, latest, skip"):
        giveway.schedules.add("n", "embed", "docs.jsonl", missed="never", **nightly)
    with pytest.raises(BadParams, match="collection: Field required"):
        giveway.schedules.add("n", "embed", "docs.jsonl", model="m", cron="0 2 * * *")
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
            # As in a task of somebody's own worker, where Celery refuses to wait for a result.
            monkeypatch.setattr(celery._state, "_task_join_will_block", True)
            answer = giveway.ask("What is a queue?", model="fake-chat", max_tokens=8, priority=5)
            vectors = giveway.embed(["one", "two"], model="fake-embed")

            assert answer.text
            assert (answer.model, answer.endpoint) == ("fake-chat", "sim")
            assert (vectors.shape[0], vectors.dtype) == (2, np.float32)
            assert job.wait(timeout_s=60).must_be_ok().progress.done == 200
    finally:
        processes.end()


def test_a_data_frame_is_a_source_and_results_are_one(giveway: Giveway, quiet: Rig) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "sku": ["a", "b", "c"],
            "text": ["one", "two", None],
            "price": [1.5, float("nan"), 3.0],
            "status": ["new", "old", "new"],
            "at": pandas.to_datetime(["2026-01-01", None, "2026-01-03"]),
        }
    )
    prompt = "{{ text }}: {{ price }} {{ status }} {{ at }}"
    source = Source(
        frame, id_field="sku", fields={name: name for name in ("price", "status", "at")}
    )
    asked = {"model": "fake-chat", "prompt": prompt, "max_tokens": 4, "key": "frame"}
    job = giveway.submit("generate", source, **asked)
    quiet.work(job.id)
    found = job.to_pandas()
    assert list(found.columns[:5]) == ["key", "at", "text", "price", "input.status"]
    assert list(found["key"]) == ["a", "b", "c"]
    assert list(found["status"]) == ["done", "done", "empty"]
    assert found["price"].isna().tolist() == [False, True, False]
    assert found["at"][0] == "2026-01-01T00:00:00"
    assert found["output.text"][:2].str.len().min() > 0

    same = giveway.submit("generate", frame.drop(columns="sku"), **asked | {"key": "numbered"})
    quiet.work(same.id)
    assert list(same.to_pandas()["key"]) == ["1", "2", "3"]


def test_in_parquet_the_output_is_columns_and_no_text_of_json(giveway: Giveway, quiet: Rig) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"text": f"{n}?", "expected": "1", "output": str(n)} for n in range(3)]
    job = giveway.evaluate(
        [*rows, {**rows[0], "output": None}], output_field="output", scorers=["numeric"]
    )
    quiet.work(job.id)
    job.export("scores.parquet")
    table = parquet.read_table("scores.parquet")
    kinds = {field.name: str(field.type) for field in table.schema}
    assert "output" not in kinds
    assert kinds["output.scores.numeric.value"] == "double"
    assert (kinds["output.answers"], kinds["tokens"]) == ("string", "int64")
    values = table.column("output.scores.numeric.value").to_pylist()
    assert values == [0.0, 1.0, 0.0, None]
    assert list(job.to_pandas()["output.scores.numeric.value"].dropna()) == [0.0, 1.0, 0.0]


def test_waiting_tells_how_far_it_is(
    giveway: Giveway, quiet: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    job = giveway.submit("embed", items(3), model="fake-embed", collection="docs", key="k")
    quiet.work(job.id)
    assert job.wait(progress=True).ok
    assert capsys.readouterr().err == "k: completed, 3 of 3\n"
    seen: list[str] = []
    job.wait(progress=lambda standing: seen.append(standing.state))
    assert seen == ["completed"]


def test_every_call_can_be_awaited(quiet: Rig) -> None:
    async def all_of_it() -> None:
        async with AsyncGiveway() as giveway:
            job = await giveway.submit(
                "embed", items(3), model="fake-embed", collection="docs", key="k"
            )
            with pytest.raises(TimeoutError):
                await job.wait(timeout_s=0)
            # More waits than there are threads, and the loop is free.
            waits = [asyncio.create_task(job.wait()) for _ in range(40)]
            await asyncio.to_thread(quiet.work, job.id)
            assert all(standing.ok for standing in await asyncio.gather(*waits))
            assert (job.key, await job.state) == ("k", "completed")
            assert [row["key"] async for row in await job.results()] == ["d0", "d1", "d2"]
            (same,) = await giveway.jobs()
            assert (await same.progress()).done == 3
            assert [one.name for one in await giveway.collections.list()] == ["docs"]
            with pytest.raises(NotFound):
                await giveway.job("nosuch")

    asyncio.run(all_of_it())
