"""An evaluation that is taken up again keeps what is scored, and only that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson
import pytest
from sqlalchemy import text

from app.domain.fingerprint import fingerprint
from app.domain.jobs import JobState
from app.services.submission import JobRequest, Submitted
from app.storage import chunk_store
from tests.rig import MakeRig, Rig
from tests.scripted import Says, Scripted, scripted

JUDGE = "strict-judge"
SCORED, REFUSED, PROSE, BROKEN = ("q0", "q4", "q5"), "q1", "q2", "q3"


class Questions:
    def content_hash(self) -> bytes:
        return fingerprint("six questions")

    def rows(self) -> Iterator[tuple[str, bytes]]:
        for n in range(6):
            yield f"q{n}", orjson.dumps({"text": f"question q{n}", "expected": "x"})

    def skipped(self) -> int:
        return 0


def said(content: str) -> Says:
    choice = {"message": {"content": content}, "finish_reason": "stop"}
    return Says(body={"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 2}})


def question_of(body: Mapping[str, Any]) -> str:
    words = body["messages"][-1]["content"]
    return next(f"q{n}" for n in range(6) if f"q{n}" in words)


def troubled(body: Mapping[str, Any]) -> Says:
    """The model refuses one question; of the others one gets prose from the judge, one an error."""
    about, judges = question_of(body), body["model"] == JUDGE
    if about == REFUSED and not judges:
        return Says(400, {"error": {"message": "no"}})
    if about == PROSE and judges:
        return said("Well, I would say it is fine. Perhaps 3 of 5.")
    if about == BROKEN and judges:
        return Says(500)
    return mended(body)


def mended(body: Mapping[str, Any]) -> Says:
    if body["model"] == JUDGE:
        return said('{"reason": "so", "score": 5}')
    return said(f"the answer to {question_of(body)}")


def submit(one: Rig) -> Submitted:
    params = {
        "model": "fake-chat",
        "scorers": ["judge"],
        "options": {"judge": {"model": JUDGE}},
    }
    return one.wiring.submission.submit(JobRequest("evaluate", params, key="run"), Questions())


def run_with_trouble(make: MakeRig, server: Scripted) -> Rig:
    """A run that has ended, with three items scored, two failed and one without a verdict."""
    one = make(
        endpoints=[server.at(models=["fake-chat", JUDGE])],
        batch={"max_attempts": 1},
        health={"failures_to_open": 1_000},
    )
    job = one.work(submit(one).job.id)
    assert (job.state, one.progress(job.id).done, one.progress(job.id).failed) == (
        JobState.COMPLETED,
        4,
        2,
    )
    summary = one.wiring.evaluation.run("run").summary
    assert (summary.scored, summary.errors, summary.invalid) == (3, 2, 1)
    assert summary.codes["bad_verdict"] == 1
    server.answer = mended
    server.asked.clear()
    return one


def asked(server: Scripted) -> list[tuple[str, bool]]:
    return sorted((question_of(body), body["model"] == JUDGE) for body in server.asked)


def test_only_what_is_scored_is_kept_when_a_run_is_taken_up_again(rig: MakeRig) -> None:
    with scripted(troubled) as server:
        one = run_with_trouble(rig, server)
        kept = one.rows("SELECT seq, output FROM results WHERE code IS NULL ORDER BY seq")
        job, again = one.wiring.steering.retry("run")
        assert (again, one.progress(job.id).pending) == (3, 3)
        assert one.work(job.id).state is JobState.COMPLETED
        # The answer to the question whose judge broke down is there already, and is not paid again.
        assert asked(server) == [
            (REFUSED, False),
            (REFUSED, True),
            (PROSE, False),
            (PROSE, True),
            (BROKEN, True),
        ]
        progress = one.progress(job.id)
        assert (progress.done, progress.failed, progress.share) == (6, 0, 1.0)
        summary = one.wiring.evaluation.run("run").summary
        assert (summary.scored, summary.errors, summary.invalid) == (6, 0, 0)
        assert one.wiring.steering.retry("run")[1] == 0
    seqs = [seq for seq, _ in kept]
    later = one.rows("SELECT seq, output FROM results WHERE seq = ANY(:s) ORDER BY seq", s=seqs)
    assert later == kept


def test_those_without_a_verdict_can_be_tried_again_alone(rig: MakeRig) -> None:
    with scripted(troubled) as server:
        one = run_with_trouble(rig, server)
        job, again = one.wiring.steering.retry("run", ["bad_verdict"])
        assert (again, one.progress(job.id).failed) == (1, 2)
        one.work(job.id)
        assert asked(server) == [(PROSE, False), (PROSE, True)]
        progress = one.progress(job.id)
        assert (progress.done, progress.failed, progress.share) == (4, 2, 1.0)


def test_the_same_key_gives_the_run_as_it_stands_and_asks_nobody(rig: MakeRig) -> None:
    with scripted(troubled) as server:
        one = run_with_trouble(rig, server)
        again = submit(one)
        assert (again.created, one.work(again.job.id).state) == (False, JobState.COMPLETED)
        assert server.asked == []


def test_mutant_that_looks_at_no_status_asks_for_all_of_it(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant = chunk_store._FORGET_FAILED.text.replace(
        "AND (status = 'failed' OR (status = 'done' AND code IS NOT NULL))", ""
    )
    monkeypatch.setattr(chunk_store, "_FORGET_FAILED", text(mutant))
    with scripted(troubled) as server:
        one = run_with_trouble(rig, server)
        one.work(one.wiring.steering.retry("run")[0].id)
        assert {question for question, _ in asked(server)} > set(SCORED)
