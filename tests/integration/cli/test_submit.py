"""`giveway submit`: a file becomes a job, once, whatever the broker does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.cli import render
from app.services.items import SourceItems
from app.services.submission import JobRequest
from app.storage.item_store import Row
from app.storage.job_store import JobStore
from app.storage.sources.base import ReadOptions
from app.storage.sources.file_origin import FilePlace
from app.wiring import Wiring
from app.worker import reaching as bell
from tests.commands import done, giveway
from tests.integration.cli.conftest import Write
from tests.rig import Rig
from tests.waiting import until


def test_a_file_becomes_a_job(stack: Rig, docs: Write) -> None:
    said = done("submit", "embed", docs(), "--id-field", "id", "--key", "nightly")

    assert said | {"created_at": None} == {
        "job": 1,
        "key": "nightly",
        "name": "nightly",
        "kind": "embed",
        "state": "ready",
        "model": "fake-embed",
        "pool": "main",
        "collection": "docs",
        "total": 120,
        "created": True,
        "skipped_lines": 0,
        "skipped_first": [],
        "created_at": None,
        "waits": None,
        "waits_code": None,
    }


def test_it_is_said_in_words_too(stack: Rig, docs: Write) -> None:
    ran = giveway("submit", "embed", docs(), "--key", "nightly")

    assert ran.code == 0
    assert ran.out.splitlines() == [
        "job 1 created: 120 items, ready",
        "key nightly",
        "watch it with: giveway jobs watch nightly",
    ]


def test_every_option_reaches_the_job(stack: Rig, docs: Write) -> None:
    options = (
        "--collection c --model fake-embed --prefix p: --name Nightly --priority 3 --weight 2.5 "
        "--max-in-flight 2 --chunk-items 7 --text-field text --id-field id --format jsonl"
    )
    done("submit", "embed", docs(), *options.split())
    shown = done("jobs", "show", "1", "--chunks")

    given = {"model": "fake-embed", "collection": "c", "prefix": "p:"}
    assert {**shown["params"], **given} == shown["params"]
    asked = ("name", "priority", "weight", "max_in_flight")
    assert [shown[name] for name in asked] == ["Nightly", 3, 2.5, 2]
    assert len(shown["chunks"]) == 18


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is to be sent over the broker."""

    def tried(*_: object) -> None:
        raise AssertionError("something was sent over a broker that does not answer")

    monkeypatch.setattr(bell, "celery_of", tried)


def test_a_broker_that_is_down_costs_no_time_and_no_error(
    stack: Rig, docs: Write, knocks: list[tuple[str, float]], untried: None
) -> None:
    ran = giveway("submit", "embed", docs(), "--json")

    assert [address for address, _ in knocks] == ["127.0.0.1:1"], "once, and not again"
    assert (ran.code, ran.err, ran.document["state"]) == (0, "", "ready")


def test_a_broker_that_swallows_connections_costs_no_more_than_its_timeout(
    stack: Rig,
    docs: Write,
    knocks: list[tuple[str, float]],
    untried: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GIVEWAY_BROKER__URL", "redis://192.0.2.1:6379/0")  # RFC 5737: nobody's
    monkeypatch.setenv("GIVEWAY_BROKER__CONNECT_TIMEOUT_S", "0.25")

    assert done("submit", "embed", docs())["state"] == "ready"
    assert knocks == [("192.0.2.1:6379", 0.25)], "once, and no longer"


def test_a_submission_rings_where_there_is_a_broker(
    stack: Rig, docs: Write, fresh_broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import redis

    monkeypatch.setenv("GIVEWAY_BROKER__URL", fresh_broker_url)
    done("submit", "embed", docs())

    with redis.Redis.from_url(fresh_broker_url) as client:
        rung = [json.loads(message) for message in client.lrange("batch", 0, -1)]
    assert {one["headers"]["task"] for one in rung} == {"giveway.batch.embed"}
    assert len(rung) == 3, "a ring a chunk, and never more than places"


def test_the_same_file_again_is_the_same_job(stack: Rig, docs: Write) -> None:
    first = done("submit", "embed", docs(), "--id-field", "id")
    second = done("submit", "embed", docs(), "--id-field", "id")

    assert (second["job"], second["created"]) == (first["job"], False)


def test_the_same_key_for_another_reading_of_the_file_is_a_conflict(
    stack: Rig, docs: Write
) -> None:
    done("submit", "embed", docs(), "--id-field", "id", "--key", "k")
    ran = giveway("submit", "embed", docs(), "--key", "k")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("giveway: key 'k' belongs to job 1 (embed, ready)")


def test_bad_lines_refuse_the_file_and_leave_nothing(stack: Rig, docs: Write) -> None:
    ran = giveway("submit", "embed", docs(3, '{"id": 1}', "nonsense"), "--json")

    assert (ran.code, ran.out) == (2, "")
    first, *lines = ran.err.splitlines()
    assert first.startswith("giveway: docs.jsonl: 2 of 5 records cannot be read")
    assert lines == ["  line 4: no field 'text'", "  line 5: not JSON: expecting value at column 1"]
    assert done("jobs", "list") == {"jobs": []}


def test_lenient_skips_bad_lines_and_says_which(stack: Rig, docs: Write) -> None:
    bad = [f"nonsense {n}" for n in range(8)]
    ran = giveway("submit", "embed", docs(3, *bad), "--lenient", "--json")

    assert (ran.code, ran.document["total"], ran.document["skipped_lines"]) == (0, 3, 8)
    assert len(ran.document["skipped_first"]) == 8
    assert ran.err.splitlines()[0] == "skipped 8 bad lines:"
    assert ran.err.splitlines()[-1] == "  … and 3 more"


def test_standard_input_is_a_file_without_a_name(stack: Rig, docs: Write) -> None:
    data = b'{"text": "one"}\n{"text": "two"}\n'
    ran = giveway("submit", "embed", "-", stdin=data)
    said = done("submit", "embed", "-", "--collection", "piped", stdin=data)

    assert (ran.code, "--collection" in ran.err) == (2, True)
    assert (said["total"], said["collection"]) == (2, "piped")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("no.csv",), "giveway: no file no.csv"),
        ((".",), "giveway: .: no file in it ends in .txt, .md"),
        (("docs.jsonl", "--text-field", "txt"), "no column 'txt'; did you mean 'text'?"),
        (("docs.jsonl", "--model", "gpt"), "'gpt'; known: fake-chat, fake-embed"),
        (("docs.jsonl", "--format", "xml"), "no format 'xml'; known: csv, jsonl, parquet"),
        (("docs.jsonl", "--collection", "a/b"), "collection"),
    ],
)
def test_what_cannot_be_submitted_is_said(
    stack: Rig, docs: Write, arguments: tuple[str, ...], said: str
) -> None:
    docs()
    file, *more = arguments
    ran = giveway("submit", "embed", file, "--collection", "c", *more)

    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_waiting_ends_with_the_job_and_shows_it(stack: Rig, docs: Write) -> None:
    file = docs()
    with ThreadPoolExecutor(1) as other:
        worked = other.submit(_work_when_there_is, stack, 1)
        said = done("submit", "embed", file, "--id-field", "id", "--wait")
        worked.result(60)

    assert (said["state"], said["done"], said["failed"]) == ("completed", 120, 0)
    assert said["limit_reason"] == "fixed"
    assert len(done("search", "docs", "text number 7")["hits"]) == 5


def test_waiting_for_a_job_with_failed_items_is_exit_code_1(stack: Rig, docs: Write) -> None:
    stack.endpoint.order({"kind": "status", "status": 422})
    file = docs(5)
    with ThreadPoolExecutor(1) as other:
        other.submit(_work_when_there_is, stack, 1)
        ran = giveway("submit", "embed", file, "--wait", "--json")

    assert (ran.code, ran.document["state"], ran.document["failed"]) == (1, "completed", 5)
    assert ran.document["failures"] == {"bad_request": 5}
    assert "completed, 5/5 (100%), 5 failed" in ran.err


class StuckItems(SourceItems):
    """Items that come to a halt while they are loaded, until their process is killed."""

    begun = threading.Event()
    killed = threading.Event()

    def rows(self) -> Iterator[Row]:
        yield next(iter(super().rows()))
        self.begun.set()
        self.killed.wait(120)
        raise KeyboardInterrupt


def test_waiting_takes_over_from_a_submission_that_crashed(
    stack: Rig, docs: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = docs()
    options = ReadOptions(text_field="text")
    items = StuckItems(FilePlace(Path(file)), options)
    params = {"model": "fake-embed", "collection": "docs", "prefix": ""}
    request = JobRequest("embed", params, key="k")
    note = render.note

    def noted(text: str) -> None:
        note(text)
        if text.startswith("loading: "):
            items.killed.set()  # It waits by now.

    monkeypatch.setattr(render, "note", noted)
    # Who is killed tidies nothing up.
    monkeypatch.setattr(JobStore, "forget_loading", lambda *_: None)
    with ThreadPoolExecutor(2) as others:
        crashes = others.submit(stack.wiring.submission.submit, request, items)
        assert items.begun.wait(60)
        seen = done("submit", "embed", file, "--key", "k")
        others.submit(_work_when_there_is, stack, 1)
        ran = giveway("submit", "embed", file, "--key", "k", "--wait", "--json")

    assert isinstance(crashes.exception(), KeyboardInterrupt)
    assert (seen["state"], seen["created"], seen["total"]) == ("loading", False, 0)
    assert (ran.code, ran.document["done"]) == (0, 120), ran.err
    assert "loading: another submission of this job is at it" in ran.err


def test_ringing_never_raises(stack: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    wiring = Wiring(stack.wiring.settings)

    assert bell.ring(wiring, "main") == 0
    monkeypatch.setattr(bell, "reachable", lambda _: True)
    assert bell.ring(stack.wiring, "no such pool") == 0


def _work_when_there_is(stack: Rig, job_id: int) -> None:
    """What a worker does, as soon as the job is loaded."""
    loaded = "SELECT id FROM jobs WHERE id = :id AND state = 'ready'"
    until(lambda: stack.rows(loaded, id=job_id), 15, "a job that is loaded")
    stack.work(job_id)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--after", "nosuchjob"), "no job with key or id 'nosuchjob' to come after"),
        (("--key", "taken"), "key 'taken' belongs to job 1"),
        (("--collection", "chats"), "collection 'chats' holds vectors of model 'other'"),
    ],
)
def test_a_dry_run_refuses_what_submitting_would(
    stack: Rig, docs: Write, options: tuple[str, str], says: str
) -> None:
    stack.submit(["another text"], key="taken")
    stack.execute("INSERT INTO collections (name, model) VALUES ('chats', 'other')")
    path = docs(3)
    for dry in (("--dry-run",), ()):
        ran = giveway("submit", "embed", path, "--id-field", "id", *options, *dry)
        assert (ran.code, says in ran.err) == (2, True), ran.err
    assert len(stack.rows("SELECT FROM jobs")) == 1
