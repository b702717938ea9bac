"""Working on chunks: every item ends once, whatever the endpoint does."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

from app.domain.jobs import JobState
from app.storage import item_store, lease_store
from app.storage.vector_store import VectorStore
from tests.rig import MakeRig, Rig

TEXTS = [f"document number {n} speaks of subject {n % 7}" for n in range(120)]


def sent(one: Rig) -> dict[str, Any]:
    ledger = one.endpoint.ledger()
    return {"total": ledger["inputs"], "most": ledger["most_times_one_input_was_sent"]}


def test_every_item_ends_with_its_own_vector(rig: MakeRig) -> None:
    one = rig()
    job = one.work(one.submit(TEXTS).job.id)

    assert (job.state, one.progress(job.id).done) == (JobState.COMPLETED, 120)
    assert one.one("SELECT count(*) FROM embeddings") == 120
    hits = one.wiring.searching.search("docs", TEXTS[42], 1)
    assert (hits[0].key, hits[0].text) == ("k42", TEXTS[42])
    assert hits[0].score == pytest.approx(1.0, abs=1e-4)


def test_blank_texts_are_recorded_as_empty_and_never_sent(rig: MakeRig) -> None:
    one = rig()
    job = one.work(one.submit(["a word", "", "  \n", "\u200b", "another"]).job.id)

    progress = one.progress(job.id)
    assert (progress.done, progress.empty, progress.failed) == (5, 3, 0)
    assert sent(one)["total"] == 2
    assert one.one("SELECT count(*) FROM embeddings") == 2


def test_a_rerun_over_unchanged_content_makes_no_call(rig: MakeRig) -> None:
    one = rig()
    one.work(one.submit(TEXTS, key="first").job.id)
    before = sent(one)["total"]
    job = one.work(one.submit(TEXTS, key="second").job.id)

    assert (one.progress(job.id).unchanged, sent(one)["total"]) == (120, before)


def test_changed_content_is_embedded_again_and_replaces_the_vector(rig: MakeRig) -> None:
    one = rig()
    one.work(one.submit(["old words", "kept"], key="first").job.id)
    job = one.work(one.submit(["quite other words", "kept"], key="second").job.id)

    assert one.progress(job.id).unchanged == 1
    assert one.wiring.searching.search("docs", "quite other words", 1)[0].key == "k0"
    assert one.one("SELECT count(*) FROM embeddings") == 2


@pytest.mark.parametrize("together", [64, 1000])
def test_one_bad_input_fails_alone_at_the_cost_of_few_calls(rig: MakeRig, together: int) -> None:
    one = rig(batch={"chunk_items": 1000, "micro_batch_items": together})
    texts = [f"harmless {n}" for n in range(1000)]
    texts[637] = "this one holds POISON"
    one.endpoint.order({"kind": "reject_text", "text": "POISON", "path": "embeddings"})
    job = one.work(one.submit(texts).job.id)

    progress = one.progress(job.id)
    assert (job.state, progress.done, progress.failed) == (JobState.COMPLETED, 999, 1)
    assert one.rows("SELECT seq, code FROM results WHERE status = 'failed'") == [
        (638, "bad_request")
    ]
    calls = one.endpoint.ledger()["requests"]
    assert calls <= math.ceil(1000 / together) + 2 * math.ceil(math.log2(together))


def test_server_errors_are_tried_again_in_a_chunk_of_their_own(rig: MakeRig) -> None:
    one = rig()
    one.endpoint.order({"kind": "status", "status": 500, "remaining": 2})  # The probe's, too.
    job_id = one.submit(TEXTS[:50]).job.id
    one.wiring.execution.run(job_id)

    assert one.progress(job_id).retrying == 10
    retry = one.rows("SELECT items, attempt, not_before > now() FROM chunks WHERE no = 2")
    assert retry[0][:2] == (10, 1)
    wait_until_done(one, job_id)
    assert one.progress(job_id).done == 50


def test_an_item_fails_for_good_after_its_last_attempt(rig: MakeRig) -> None:
    one = rig(batch={"max_attempts": 3, "retry_base_s": 0.01})
    one.endpoint.order({"kind": "status", "status": 500})
    job = wait_until_done(one, one.submit(TEXTS[:10]).job.id)

    assert (job.state, one.progress(job.id).failed) == (JobState.COMPLETED, 10)
    assert one.endpoint.ledger()["requests"] == 3 * 2  # Each with a probe, which fails as well.
    assert one.rows("SELECT DISTINCT code FROM results") == [("server_error",)]


@pytest.mark.parametrize("mode", ["nan", "short", "doubled", "zero"])
def test_spoilt_vectors_never_reach_the_table(rig: MakeRig, mode: str) -> None:
    one = rig(batch={"max_attempts": 2, "retry_base_s": 0.01}, health={"failures_to_open": 1_000})
    one.endpoint.order({"kind": "vectors", "mode": mode})
    job = wait_until_done(one, one.submit(TEXTS[:10]).job.id)

    assert one.progress(job.id).failed == 10
    assert one.one("SELECT count(*) FROM embeddings") == 0
    assert one.rows("SELECT DISTINCT code FROM results") == [("bad_reply",)]


def test_another_dimension_than_the_collections_is_refused(rig: MakeRig) -> None:
    one = rig(batch={"max_attempts": 1})
    one.work(one.submit(TEXTS[:10], key="first").job.id)
    one.endpoint.order({"kind": "vectors", "mode": "wrong_dim"})
    job = wait_until_done(one, one.submit(TEXTS[10:20], key="second").job.id)

    assert one.progress(job.id).failed == 10
    assert one.one("SELECT count(DISTINCT vector_dims(vector)) FROM embeddings") == 1


def test_retry_after_frees_the_place_and_counts_no_attempt(rig: MakeRig) -> None:
    one = rig()
    one.endpoint.order({"kind": "status", "status": 429, "retry_after": "1", "remaining": 1})
    job_id = one.submit(TEXTS[:50]).job.id
    report = one.wiring.execution.run(job_id)

    assert report.ended == "rate_limited"
    assert one.rows("SELECT state, attempt FROM chunks") == [("ready", 0)]
    assert one.wiring.execution.run(job_id).ended in ("endpoints", "nothing_ready")
    assert one.endpoint.ledger()["requests"] == 1
    assert wait_until_done(one, job_id).state is JobState.COMPLETED


def test_a_wrong_key_pauses_the_job_with_the_reason(rig: MakeRig) -> None:
    one = rig()
    one.endpoint.order({"kind": "status", "status": 401, "remaining": 1})
    job_id = one.submit(TEXTS[:50]).job.id
    one.wiring.execution.run(job_id)

    job = one.job(job_id)
    assert (job.state, job.reason and job.reason[:4]) == (JobState.PAUSED, "auth")
    one.wiring.steering.resume("job")
    assert one.work(job_id).state is JobState.COMPLETED


def test_failed_items_can_be_retried_by_code(rig: MakeRig) -> None:
    one = rig(batch={"max_attempts": 1})
    one.endpoint.order({"kind": "reject_text", "text": "number 5 ", "path": "embeddings"})
    job_id = one.submit(TEXTS[:50]).job.id
    one.work(job_id)
    assert one.progress(job_id).failed == 1
    one.endpoint.calm()

    assert one.wiring.steering.retry("job", ["timeout"])[1] == 0
    job, again = one.wiring.steering.retry("job")
    assert (again, job.state) == (1, JobState.READY)
    assert one.work(job_id).state is JobState.COMPLETED
    progress = one.progress(job_id)
    assert (progress.done, progress.failed, progress.share) == (50, 0, 1.0)


def test_a_paused_job_stops_between_micro_batches_and_loses_nothing(rig: MakeRig) -> None:
    one = rig()
    job_id = one.submit(TEXTS[:50]).job.id
    one.wiring.observer = Act(after=2, act=lambda: one.wiring.steering.pause("job"))

    assert one.wiring.execution.run(job_id).ended == "paused"
    assert one.progress(job_id).done == 20
    assert one.wiring.execution.run(job_id).ended == "paused"
    one.wiring.steering.resume("job")
    assert one.work(job_id).state is JobState.COMPLETED
    assert sent(one)["most"] == 1


def test_a_cancelled_job_stays_cancelled_and_keeps_its_results(rig: MakeRig) -> None:
    one = rig()
    job_id = one.submit(TEXTS[:50]).job.id
    one.wiring.observer = Act(after=1, act=lambda: one.wiring.steering.cancel("job"))
    one.wiring.execution.run(job_id)

    assert one.work(job_id).state is JobState.CANCELLED
    assert one.one("SELECT count(*) FROM embeddings") == 10


def test_on_shutdown_the_chunk_goes_back_with_its_results(rig: MakeRig) -> None:
    one, other = rig(), rig()
    job_id = one.submit(TEXTS[:50]).job.id
    one.wiring.observer = Act(after=2, act=one.wiring.leases.stopping.set)

    assert one.wiring.execution.run(job_id).ended == "stopping"
    assert one.rows("SELECT state, attempt, crashes, ok FROM chunks") == [("ready", 0, 0, 20)]
    assert other.work(job_id).state is JobState.COMPLETED
    assert sent(one)["most"] == 1


def killed_in_the_middle(rig: MakeRig) -> Rig:
    """A worker dies after two micro-batches were stored and a third was answered."""
    one = rig()
    job_id = one.submit(TEXTS[:50]).job.id
    one.wiring.observer = Act(after=2, act=stop_here)
    with pytest.raises(Killed):
        one.wiring.execution.run(job_id)
    other = rig()
    assert other.wiring.rescue.replace(one.wiring.worker_name) == 1
    assert other.work(job_id).state is JobState.COMPLETED
    return other


def test_after_a_crash_no_stored_item_is_paid_for_again(rig: MakeRig) -> None:
    other = killed_in_the_middle(rig)
    assert (sent(other)["total"], sent(other)["most"]) == (50, 1)
    assert other.progress(1).done == 50


def test_mutant_without_the_skip_pays_twice(rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = item_store._PENDING_RUN.text.replace("AND r.seq IS NULL", "")
    monkeypatch.setattr(item_store, "_PENDING_RUN", execution_text(mutant))
    # Stored vectors would save the calls as well, so this mutant is blind to them too.
    monkeypatch.setattr(VectorStore, "known", lambda *_: {})
    other = killed_in_the_middle(rig)
    assert sent(other)["most"] == 2


def lost_lease(rig: MakeRig) -> list[tuple[str, int, int]]:
    """A worker that was thought dead comes back with an answer while another has the chunk.

    (state, fence) of the chunk afterwards, and how many results were written.
    """
    slow, quick = rig(), rig()
    job_id = slow.submit(TEXTS[:50]).job.id
    call = slow.wiring.execution._call

    def long_call(*given: Any) -> Any:
        read = call(*given)
        slow.execute("UPDATE chunks SET lease_until = now() - interval '1 minute'")
        assert quick.wiring.rescue.sweep() == 1
        quick.wiring.execution._claim(job_id)
        slow.wiring.leases.stopping.set()
        return read

    slow.wiring.execution._call = long_call  # type: ignore[method-assign]
    slow.wiring.execution.run(job_id)
    return quick.rows("SELECT state, fence, (SELECT count(*) FROM results) FROM chunks")


def test_a_lost_lease_writes_nothing_and_gives_nothing_back(rig: MakeRig) -> None:
    assert lost_lease(rig) == [("leased", 3, 0)]


def test_mutant_without_the_fence_gives_away_what_another_works_on(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_HOLD", "_ADD", "_HAND_BACK"):
        mutant = getattr(lease_store, name).text.replace(" AND fence = :fence", "")
        monkeypatch.setattr(lease_store, name, execution_text(mutant))
    assert lost_lease(rig) == [("ready", 3, 10)]


def test_a_poison_item_is_cornered_and_the_rest_is_done(rig: MakeRig) -> None:
    one = rig(batch={"crashes_before_split": 2})
    texts = TEXTS[:50]
    job_id = one.submit(texts).job.id

    def dies(work: Any, batch: Any) -> Any:
        if any(unit.item.seq == 33 for unit in batch):
            raise Killed
        return call(work, batch)

    call = one.wiring.execution._call
    one.wiring.execution._call = dies  # type: ignore[method-assign]
    for _ in range(200):
        try:
            if one.wiring.execution.run(job_id).ended == "nothing_ready":
                break
        except Killed:
            one.wiring.rescue.replace(one.wiring.worker_name)
    one.wiring.completion.sweep()

    progress = one.progress(job_id)
    assert (one.job(job_id).state, progress.done, progress.failed) == ("completed", 49, 1)
    assert one.rows("SELECT seq, code FROM results WHERE status = 'failed'") == [
        (33, "crashed_worker")
    ]


def test_over_the_limit_the_newest_give_way_and_the_oldest_go_on(rig: MakeRig) -> None:
    one = rig()
    job_id = one.submit([f"text {n}" for n in range(200)]).job.id
    everyone = threading.Barrier(4)
    reports: list[Any] = []

    class Together:
        def saw(self, event: Any) -> None:
            if getattr(event, "done", 0) == 10 and not everyone.broken:
                everyone.wait(20)
                one_of = threading.current_thread().name
                if one_of == "w0":
                    one.limit(2)
                everyone.wait(20)

    one.wiring.observer = Together()
    threads = [
        threading.Thread(
            target=lambda: reports.append(one.wiring.execution.run(job_id)), name=f"w{n}"
        )
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(report.ended for report in reports) == [
        "finished",
        "finished",
        "yielded",
        "yielded",
    ]
    assert one.rows("SELECT attempt, crashes FROM chunks WHERE state = 'ready'") == [(0, 0)] * 2


class Killed(BaseException):
    """Stands for kill -9 where no process may die: nothing of ours catches it."""


def stop_here() -> None:
    raise Killed


class Act:
    """An observer that acts once, after so many micro-batches."""

    def __init__(self, after: int, act: Any) -> None:
        self._after = after
        self._act = act

    def saw(self, event: Any) -> None:
        self._after -= hasattr(event, "tokens")
        if self._after == 0:
            self._after = -1
            self._act()


def execution_text(sql: str) -> Any:
    from sqlalchemy import text

    return text(sql)


def wait_until_done(one: Rig, job_id: int) -> Any:
    """Work until the job is final: retry chunks come due with time."""
    for _ in range(400):
        job = one.work(job_id)
        if job.state in ("completed", "failed", "cancelled"):
            return job
        threading.Event().wait(0.02)
    raise AssertionError(f"job {job_id} did not end: {one.progress(job_id)}")
