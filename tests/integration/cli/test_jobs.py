"""`giveway jobs`: what people see of a job and do to it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest

from app import clock
from app.cli.parts.watching import watch
from app.errors import DatabaseUnavailable
from app.services.inspection import Inspection, JobView
from tests.commands import done, giveway
from tests.rig import Rig
from tests.waiting import until

FIELDS = {
    *("id", "key", "name", "kind", "state", "reason", "model", "pool", "collection", "priority"),
    *("weight", "max_in_flight", "total", "done", "unchanged", "empty", "failed", "retrying"),
    *("pending", "in_flight", "share", "prompt_tokens", "completion_tokens", "skipped_lines"),
    *("created_at", "started_at", "finished_at", "elapsed_s", "money", "budget"),
    *("deleted", "waits", "waits_code"),
}


def test_no_jobs_say_how_to_get_one(stack: Rig) -> None:
    assert giveway("jobs", "list").out == "no jobs; submit one with: giveway submit embed FILE\n"
    assert giveway("jobs", "list", "--state", "paused").out.startswith("no jobs in state paused;")


def test_jobs_are_listed_newest_first_and_by_state(stack: Rig) -> None:
    stack.submit(["a"], "one")
    stack.submit(["b"], "two")
    done("jobs", "pause", "one")

    assert [job["key"] for job in done("jobs", "list")["jobs"]] == ["two", "one"]
    assert [job["key"] for job in done("jobs", "list", "--limit", "1")["jobs"]] == ["two"]
    assert [job["key"] for job in done("jobs", "list", "--state", "paused")["jobs"]] == ["one"]
    listed = giveway("jobs", "list").out
    assert "two  embed  ready" in listed
    assert "two waits: a place is free; a worker takes it up within a tick (ringing)" in listed


def test_a_deadline_that_cannot_be_met_says_so_and_when_the_job_will_be_done(stack: Rig) -> None:
    texts = [f"text {n}" for n in range(500)]
    deadline_at = clock.now() + timedelta(hours=1)
    stack.submit(texts, "late", deadline_at=deadline_at)
    assert done("jobs", "show", "late")["expected_at"] is None
    stack.execute(
        "UPDATE chunks SET ok = 10, held_s = 10000 WHERE no = 1; UPDATE jobs SET state = 'running'"
    )
    shown = done("jobs", "show", "late")  # 490 items at 1,000 s each, with one place

    expected_at = datetime.fromisoformat(shown["expected_at"])
    assert expected_at > clock.now() + timedelta(days=5)
    assert shown["late_s"] == pytest.approx((expected_at - deadline_at).total_seconds())
    assert "cannot be met with 1 place, 137 would make it; done about 2" in " ".join(
        giveway("jobs", "show", "late").out.split()
    )


def test_a_job_is_shown_whole_by_key_and_by_id(stack: Rig) -> None:
    job_id = stack.submit(["a", "", "a b"]).job.id
    stack.work(job_id)
    shown = done("jobs", "show", "job")

    view = {"limit", "limit_reason", "failures", "params", "failed_items"}
    view |= {"tenant", "after", "window", "deadline_at", "expected_at", "late_s"}
    assert set(shown) == FIELDS | view
    assert shown["id"] == done("jobs", "show", str(job_id))["id"]
    counts = ("state", "total", "done", "empty", "failed", "pending", "in_flight", "share")
    assert [shown[name] for name in counts] == ["completed", 3, 3, 1, 0, 0, 0, 1.0]
    assert datetime.fromisoformat(shown["finished_at"]) >= datetime.fromisoformat(
        shown["started_at"]
    )
    assert shown["elapsed_s"] >= 0
    assert shown["prompt_tokens"] > 0


def test_failed_items_are_named_in_words_and_in_json(stack: Rig) -> None:
    stack.endpoint.order({"kind": "status", "status": 422})
    stack.work(stack.submit(["a", "b", "c"]).job.id)
    shown = done("jobs", "show", "job", "--failures", "2", "--chunks")

    assert shown["failures"] == {"bad_request": 3}
    assert [one["key"] for one in shown["failed_items"]] == ["k0", "k1"]
    assert {one["state"] for one in shown["chunks"]} == {"done"}
    said = giveway("jobs", "show", "job", "--chunks").out
    assert "failed      3: bad_request 3" in said
    assert "k2" in said


def test_pausing_holds_and_resuming_goes_on(stack: Rig) -> None:
    job_id = stack.submit(["a"] * 60).job.id

    assert done("jobs", "pause", "job")["state"] == "paused"
    assert stack.work(job_id).state == "paused"
    assert done("jobs", "resume", "job")["state"] == "ready"
    assert stack.work(job_id).state == "completed"


def test_a_job_past_its_budget_goes_on_with_a_larger_one(stack: Rig) -> None:
    job_id = stack.submit(["a"] * 60).job.id
    stack.execute("UPDATE jobs SET budget = 1.0")
    stack.execute("UPDATE chunks SET money = 1.02 WHERE no = 1")

    assert stack.work(job_id).state == "paused"
    said = giveway("jobs", "show", "job").out
    assert "paused (budget: spent 1.02 of 1.00)" in said
    assert "money       1.02 of 1.00" in said
    refused = giveway("jobs", "resume", "job")
    assert refused.code == 2
    assert "jobs resume job --budget MORE" in refused.err
    resumed = done("jobs", "resume", "job", "--budget", "2")
    assert (resumed["state"], resumed["budget"], resumed["money"]) == ("ready", 2.0, 1.02)
    assert stack.work(job_id).state == "completed"


def test_a_cancelled_job_stays_so(stack: Rig) -> None:
    stack.submit(["a"])

    assert done("jobs", "cancel", "job")["state"] == "cancelled"
    assert done("jobs", "cancel", "job")["state"] == "cancelled"
    ran = giveway("jobs", "resume", "job")
    assert (ran.code, ran.err.split(";")[0]) == (2, "giveway: job 'job' is cancelled")
    assert giveway("jobs", "pause", "job").code == 2


def test_retrying_takes_up_what_failed_with_a_code(stack: Rig) -> None:
    stack.endpoint.order({"kind": "status", "status": 422})
    job_id = stack.submit(["a", "b"]).job.id
    stack.work(job_id)
    stack.endpoint.calm()

    assert done("jobs", "retry", "job", "--code", "timeout")["retried"] == 0
    assert done("jobs", "retry", "job", "--code", "bad_request")["retried"] == 2
    stack.work(job_id)
    shown = done("jobs", "show", "job")
    assert (shown["state"], shown["done"], shown["failed"]) == ("completed", 2, 0)


@pytest.mark.parametrize("verb", ["show", "watch", "pause", "resume", "cancel", "retry"])
def test_a_job_that_is_not_there_is_exit_code_2(stack: Rig, verb: str) -> None:
    ran = giveway("jobs", verb, "nope", "--json")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "giveway: no job with key or id 'nope'; see `giveway jobs list`\n"


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The states in which a job was seen, one after the other."""
    seen: list[str] = []
    look = Inspection.job

    def looked(self: Inspection, reference: str) -> JobView:
        view = look(self, reference)
        seen.append(view.job.state)
        return view

    monkeypatch.setattr(Inspection, "job", looked)
    return seen


def test_watching_ends_with_the_job(stack: Rig, looks: list[str]) -> None:
    job_id = stack.submit(["a"] * 60).job.id
    with ThreadPoolExecutor(1) as other:
        watching = other.submit(giveway, "jobs", "watch", "job", "--json")
        until(lambda: looks, 20, "the first look")
        stack.work(job_id)
        ran = watching.result(60)

    assert (ran.code, ran.document["state"]) == (0, "completed")
    assert ran.err.splitlines()[-1] == "job: completed, 60/60 (100%), 0 failed"


def test_watching_a_cancelled_job_is_exit_code_1(stack: Rig) -> None:
    stack.submit(["a"])
    done("jobs", "cancel", "job")

    assert giveway("jobs", "watch", "job").code == 1


def test_a_job_that_paused_by_itself_is_watched_no_longer(stack: Rig) -> None:
    job_id = stack.submit(["a"] * 60).job.id
    stack.execute("UPDATE jobs SET budget = 1.0")
    stack.execute("UPDATE chunks SET money = 1.02 WHERE no = 1")
    stack.work(job_id)

    ran = giveway("jobs", "watch", "job", "--json")
    assert (ran.code, ran.document["reason"]) == (1, "budget: spent 1.02 of 1.00")
    said = "it goes no further by itself: put that right, then giveway jobs resume job"
    assert ran.err.splitlines()[-1] == said


def test_a_job_that_a_person_paused_is_watched_until_it_has_ended(
    stack: Rig, looks: list[str]
) -> None:
    job_id = stack.submit(["a"] * 60).job.id
    done("jobs", "pause", "job")
    with ThreadPoolExecutor(1) as other:
        watching = other.submit(giveway, "jobs", "watch", "job", "--json")
        until(lambda: looks[1:] or watching.done(), 20, "a second look")
        assert set(looks) == {"paused"}
        stack.wiring.steering.resume("job")
        stack.work(job_id)
        assert watching.result(60).document["state"] == "completed"


def test_watching_outlives_a_database_that_is_restarted(
    stack: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stack.work(stack.submit(["a"]).job.id)
    looks = iter([DatabaseUnavailable("Postgres went away"), None])
    real = Inspection.job

    def sometimes(self: Inspection, reference: str) -> object:
        if (error := next(looks)) is not None:
            raise error
        return real(self, reference)

    monkeypatch.setattr(Inspection, "job", sometimes)

    assert watch(stack.wiring.inspection, "job").job.state == "completed"
    assert "Postgres does not answer; the job goes on when it is back" in capsys.readouterr().err


def test_watching_gives_up_when_the_database_stays_away(
    stack: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(self: Inspection, reference: str) -> object:
        raise DatabaseUnavailable("Postgres went away")

    monkeypatch.setattr(Inspection, "job", never)
    monkeypatch.setattr(threading.Event, "wait", lambda *_: False)

    with pytest.raises(DatabaseUnavailable):
        watch(stack.wiring.inspection, "job", patience_s=0.05)
