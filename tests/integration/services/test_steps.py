"""Items of several calls: every step is paid for once, whatever stops the work in between."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from app.domain.jobs import JobState
from app.errors import BadParams, UnknownName
from app.kinds import registry
from app.services.submission import JobRequest
from app.storage.lease_store import LeaseStore
from app.storage.step_store import StepStore
from tests.rig import MakeRig, Rig, Texts

TWO_ENDPOINTS = {
    "endpoints": [
        {"name": "chats", "models": ["fake-chat"], "max_concurrency": 8},
        {"name": "vectors", "models": ["fake-embed"], "max_concurrency": 1},
    ]
}


@pytest.fixture(autouse=True)
def relay(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_declared", {"tests.relay": None})
    registry.kinds.cache_clear()
    yield
    registry.kinds.cache_clear()


def submit(one: Rig, *texts: str, key: str = "job", **params: Any) -> int:
    request = JobRequest("relay", {"model": "fake-chat", **params}, key=key, chunk_items=20)
    return one.wiring.submission.submit(request, Texts(list(texts))).job.id


def two(make: MakeRig, **more: Any) -> Rig:
    """A pool whose chats and vectors are at different endpoints."""
    one = make()
    endpoints = [{**e, "base_url": one.endpoint.url} for e in TWO_ENDPOINTS["endpoints"]]
    return make(endpoints=endpoints, **more)


def docs(count: int, parts: int = 3) -> list[str]:
    return ["|".join(f"part {p} of text {n}" for p in range(parts)) for n in range(count)]


def calls(one: Rig) -> int:
    return int(one.endpoint.ledger()["requests"])


def test_an_item_goes_from_step_to_step_to_its_result(rig: MakeRig) -> None:
    one = rig()
    job = one.work(submit(one, *docs(4)))

    assert (job.state, one.progress(job.id).done, calls(one)) == (JobState.COMPLETED, 4, 16)
    outputs = one.rows("SELECT output, tokens FROM results")
    assert {tuple(output["steps"]) for output, _ in outputs} == {
        ("part:0", "part:1", "part:2", "whole")
    }
    made = one.progress(job.id)
    assert sum(tokens for _, tokens in outputs) == made.prompt_tokens + made.completion_tokens > 0


def test_nothing_is_left_of_the_steps_of_an_item_that_has_its_result(rig: MakeRig) -> None:
    one = rig()
    one.work(submit(one, *docs(3)))

    assert one.one("SELECT count(*) FROM steps") == 0


def test_an_item_that_needs_no_call_gets_none(rig: MakeRig) -> None:
    one = rig()
    job = one.work(submit(one, "alone", "one|two", "alone", ""))

    assert (one.progress(job.id).done, one.progress(job.id).empty, calls(one)) == (4, 1, 3)


def test_a_chunk_that_gives_way_goes_on_at_its_next_step(rig: MakeRig) -> None:
    one = rig()
    job_id = submit(one, *docs(3))
    stop_after(one, calls_made=2)
    assert one.wiring.execution.run(job_id).ended == "yielded"
    assert (calls(one), one.one("SELECT count(*) FROM steps")) == (2, 2)

    other = rig()
    job = other.work(job_id)
    assert (job.state, other.progress(job_id).done, calls(other)) == (JobState.COMPLETED, 3, 12)
    assert other.one("SELECT attempt FROM chunks") == 0


def test_a_killed_worker_repeats_only_the_call_it_was_in(rig: MakeRig) -> None:
    assert calls_after_a_crash(rig) <= 12 + 1


def test_without_stored_steps_a_crash_would_pay_again(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StepStore, "record", lambda self, lease, seq, step: True)
    assert calls_after_a_crash(rig) > 12 + 1


def calls_after_a_crash(make: MakeRig) -> int:
    """Calls for 3 items of 4 steps whose first worker dies in its seventh call."""
    one = make()
    job_id = submit(one, *docs(3))

    class Killed(BaseException):
        pass

    real = one.wiring.execution._call
    made: list[int] = []

    def deadly(work: Any, batch: Any) -> Any:
        made.append(1)
        read = real(work, batch)
        if len(made) == 7:
            raise Killed
        return read

    one.wiring.execution._call = deadly  # type: ignore[method-assign]
    with pytest.raises(Killed):
        one.wiring.execution.run(job_id)
    one.execute("UPDATE chunks SET lease_until = now() - interval '1 second'")
    assert one.wiring.rescue.sweep() == 1
    other = make()
    job = other.work(job_id)
    assert (job.state, other.progress(job_id).done) == (JobState.COMPLETED, 3)
    return calls(other)


def test_a_lost_lease_stores_no_step(rig: MakeRig) -> None:
    one = rig()
    job_id = submit(one, *docs(1))
    real = one.wiring.execution._call

    def overtaken(work: Any, batch: Any) -> Any:
        read = real(work, batch)
        one.execute("UPDATE chunks SET fence = fence + 1")
        return read

    one.wiring.execution._call = overtaken  # type: ignore[method-assign]
    assert one.wiring.execution.run(job_id).ended == "lost"
    assert one.one("SELECT count(*) FROM steps") == 0
    assert one.progress(job_id).prompt_tokens == 0


def test_a_step_that_meets_an_error_is_tried_again_without_those_before_it(rig: MakeRig) -> None:
    one = rig()
    job_id = submit(one, *docs(1))
    stop_after(one, calls_made=2)
    one.wiring.execution.run(job_id)
    one.endpoint.order({"kind": "status", "status": 500, "remaining": 1})
    other = rig()
    other.wiring.execution.run(job_id)
    assert other.progress(job_id).retrying == 1

    deadline = threading.Event()
    while other.work(job_id).state is not JobState.COMPLETED:
        deadline.wait(0.05)
    # The call that failed, and the small one that told whose fault it was.
    assert (other.progress(job_id).done, calls(other)) == (1, 4 + 1 + 1)


def test_a_failed_step_fails_its_item_alone_and_keeps_what_was_paid(rig: MakeRig) -> None:
    one = rig()
    texts = docs(3)
    texts[1] = "fine|POISON|fine"
    one.endpoint.order({"kind": "reject_text", "text": "POISON", "path": "chat"})
    job = one.work(submit(one, *texts))

    assert (one.progress(job.id).done, one.progress(job.id).failed) == (2, 1)
    assert one.rows("SELECT seq, code FROM results WHERE status = 'failed'") == [(2, "bad_request")]
    assert one.rows("SELECT seq, name FROM steps") == [(2, "part:0")]


def test_a_kind_that_fails_on_an_item_fails_the_item_and_says_no_text(rig: MakeRig) -> None:
    one = rig()
    job = one.work(submit(one, "broken", "one|two", "stuck"))

    assert (one.progress(job.id).done, one.progress(job.id).failed) == (1, 2)
    found = one.rows("SELECT code, error FROM results WHERE status = 'failed' ORDER BY seq")
    assert [code for code, _ in found] == ["kind_fault", "kind_fault"]
    assert "ValueError" in found[0][1]
    assert "SECRET" not in found[0][1]


def test_a_step_of_another_model_moves_to_an_endpoint_that_serves_it(rig: MakeRig) -> None:
    one = two(rig)
    job = one.work(submit(one, *docs(3), embedder="fake-embed"))

    assert (job.state, one.progress(job.id).done) == (JobState.COMPLETED, 3)
    assert one.rows("SELECT endpoint, count(*) FROM batch_calls GROUP BY 1 ORDER BY 1") == [
        ("chats", 12),
        ("vectors", 3),
    ]
    assert one.rows("SELECT DISTINCT endpoint FROM results") == [("vectors",)]


def test_moving_never_passes_what_an_endpoint_takes(rig: MakeRig) -> None:
    """Eight chunks at once, each to move to an endpoint with one place."""
    assert most_at_vectors(rig) == 1


def test_moving_without_counting_would_pass_it(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.moving.at_endpoints", lambda pool, occupancy: {})
    assert most_at_vectors(rig) > 1


def most_at_vectors(make: MakeRig) -> int:
    one = two(make)
    one.endpoint.order({"kind": "delay", "delay_s": 0.05})
    request = JobRequest(
        "relay", {"model": "fake-chat", "embedder": "fake-embed"}, key="job", chunk_items=1
    )
    job_id = one.wiring.submission.submit(request, Texts(docs(8, parts=1))).job.id
    seen: list[int] = []
    real = LeaseStore.move

    def watched(self: LeaseStore, lease: Any, endpoint: str) -> bool:
        moved = real(self, lease, endpoint)
        counted = "SELECT count(*) FROM chunks WHERE state = 'leased' AND endpoint = 'vectors'"
        seen.append(int(self._tx.execute(text(counted)).scalar_one()))
        return moved

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LeaseStore, "move", watched)
        threads = [
            threading.Thread(target=one.wiring.execution.run, args=(job_id,)) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert seen
    return max(seen)


def test_a_full_endpoint_is_waited_for_with_what_was_paid_kept(rig: MakeRig) -> None:
    one = two(rig)
    job_id = submit(one, "one|two", embedder="fake-embed")
    one.execute("UPDATE endpoints SET cool_until = now() + interval '1 hour' WHERE name='vectors'")
    assert one.wiring.execution.run(job_id).ended == "endpoints"
    assert one.rows("SELECT state, attempt, not_before > now() FROM chunks") == [("ready", 0, True)]
    one.execute("UPDATE endpoints SET cool_until = NULL, refusals = 0")
    one.execute("UPDATE chunks SET not_before = NULL")
    job = one.work(job_id)
    assert (one.progress(job.id).done, calls(one)) == (1, 4)


def test_models_that_no_pool_serves_together_are_refused(rig: MakeRig) -> None:
    first = rig()
    endpoints = [
        {"name": "a", "base_url": first.endpoint.url, "models": ["fake-chat"]},
        {"name": "b", "base_url": first.endpoint.url, "models": ["fake-embed"], "pool": "other"},
    ]
    pools = [{"name": "main", "total": 8}, {"name": "other", "total": 8}]
    one = rig(endpoints=endpoints, pools=pools)
    with pytest.raises(BadParams, match="'fake-embed' is not served by pool 'main'"):
        submit(one, "one|two", embedder="fake-embed")
    with pytest.raises(UnknownName, match="nobody"):
        submit(one, "one|two", embedder="nobody")


def stop_after(one: Rig, calls_made: int) -> None:
    """Ask the chunk to yield once so many calls have been made."""
    execution = one.wiring.execution
    real = execution._call
    made: list[int] = []

    def counted(work: Any, batch: Any) -> Any:
        made.append(1)
        if len(made) == calls_made:
            work.held.yield_requested = True
        return real(work, batch)

    execution._call = counted  # type: ignore[method-assign]
