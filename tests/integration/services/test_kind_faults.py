"""A kind whose own code fails: told at once, and nobody takes it for a worker that died."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.domain.jobs import JobState
from app.kinds import registry
from app.services.submission import JobRequest
from tests.rig import MakeRig, Rig, Texts


@pytest.fixture(autouse=True)
def faulty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_declared", {"tests.faulty": None})
    registry.kinds.cache_clear()
    yield
    registry.kinds.cache_clear()


def submit(one: Rig, *texts: str) -> int:
    request = JobRequest("faulty", {"model": "fake-chat"}, key="job", chunk_items=20)
    return one.wiring.submission.submit(request, Texts(list(texts))).job.id


@pytest.mark.parametrize(
    ("place", "raised", "requests"), [("request", "ValueError", 2), ("read", "KeyError", 3)]
)
def test_a_call_that_the_kind_cannot_make_or_read_fails_its_item_alone(
    rig: MakeRig, place: str, raised: str, requests: int
) -> None:
    one = rig()
    job_id = submit(one, "one", f"fails in {place}", "three")

    assert one.wiring.execution.run(job_id).ended == "finished"

    assert (one.progress(job_id).done, one.progress(job_id).failed) == (2, 1)
    assert one.endpoint.ledger()["requests"] == requests
    ((seq, code, error),) = one.rows("SELECT seq, code, error FROM results WHERE status = 'failed'")
    assert (seq, code) == (2, "kind_fault")
    assert error.startswith(f"faulty raised {raised} at faulty.py:")
    assert one.rows("SELECT state, crashes FROM chunks") == [("done", 0)]


def test_a_chunk_that_the_kind_cannot_prepare_pauses_the_job_and_says_why(rig: MakeRig) -> None:
    one = rig()
    job_id = submit(one, "one", "fails in prepare")

    assert one.wiring.execution.run(job_id).ended == "paused"

    job = one.job(job_id)
    assert job.state is JobState.PAUSED
    assert job.reason is not None
    assert job.reason.startswith("kind_fault: faulty raised LookupError at faulty.py:")
    assert one.rows("SELECT state, attempt, crashes FROM chunks") == [("ready", 0, 0)]
    assert one.endpoint.ledger()["requests"] == 0


def test_what_a_kind_raises_about_an_item_is_not_repeated(
    rig: MakeRig, caplog: pytest.LogCaptureFixture
) -> None:
    one = rig()
    one.work(submit(one, "fails in request", "fails in read"))

    kept = str(one.rows("SELECT error FROM results"))
    assert "faulty" in kept
    assert "SECRET" not in kept + caplog.text
    assert "kind faulty raised KeyError at faulty.py:" in caplog.text


def test_a_worker_that_lacks_the_kind_leaves_the_job_to_those_who_know_it(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = rig()
    job_id = submit(one, "one")
    monkeypatch.setattr(registry, "_declared", {})
    registry.kinds.cache_clear()

    assert one.wiring.execution.run(job_id).ended == "unknown_kind"

    assert one.job(job_id).state is JobState.READY
    assert one.rows("SELECT state, attempt, crashes FROM chunks") == [("ready", 0, 0)]
