"""What holds a job back and whom it tells, from the command line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.commands import done, giveway
from tests.integration.cli.conftest import Write
from tests.rig import Rig


def submit(name: str, *options: str) -> dict[str, object]:
    return done("submit", "embed", name, "--id-field", "id", "--collection", "docs", *options)


def test_a_job_that_waits_says_for_what(stack: Rig, docs: Write) -> None:
    docs(3)
    start = datetime.now(UTC) + timedelta(hours=3)
    hours = f"{start:%H:%M}-{start + timedelta(hours=2):%H:%M}"
    submit("docs.jsonl", "--key", "first")
    submit("docs.jsonl", "--key", "second", "--after", "first", "--tenant", "research")
    submit("docs.jsonl", "--key", "third", "--window", hours)

    second, third = done("jobs", "show", "second"), done("jobs", "show", "third")
    assert (second["waits"], second["tenant"]) == ("waits for job first", "research")
    tomorrow = " tomorrow" if start.date() > datetime.now(UTC).date() else ""
    assert third["waits"] == f"outside its window until {start:%H:%M} UTC{tomorrow}"
    assert (second["waits_code"], third["waits_code"]) == ("after_jobs", "outside_window")
    assert third["window"] == {
        "from": hours[:5],
        "to": hours[6:],
        "timezone": "UTC",
    }
    assert "waits       waits for job first" in giveway("jobs", "show", "second").out
    (pool,) = done("throttle", "explain")["pools"]
    assert [(one["key"], one["code"]) for one in pool["held_back"]] == [
        ("first", "ringing"),
        ("second", "after_jobs"),
        ("third", "outside_window"),
    ]
    assert "  job second: waits for job first" in giveway("throttle", "explain").out
    assert (
        "no job with key or id 'nobody'"
        in giveway("submit", "embed", "docs.jsonl", "--collection", "docs", "--after", "nobody").err
    )


def test_a_webhook_is_shown_with_what_became_of_it(stack: Rig, docs: Write) -> None:
    docs(3)
    hook = ("--webhook", "http://127.0.0.1:1/hook", "--webhook-secret-env", "NO_SUCH_SECRET")
    job = submit("docs.jsonl", "--key", "k", *hook)
    stack.work(int(str(job["job"])))
    stack.wiring.telling.tell()

    (told,) = done("jobs", "show", "k")["webhooks"]
    assert (told["state"], told["attempt"]) == ("waiting", 1)
    said = giveway("jobs", "show", "k").out
    assert "waiting, attempt 1: the control worker's environment has no NO_SUCH_SECRET" in said


def test_failures_are_tried_again_by_several_codes(stack: Rig, docs: Write) -> None:
    docs(12)
    job = submit("docs.jsonl", "--key", "k")
    stack.work(int(str(job["job"])))
    stack.execute(
        "UPDATE results SET status = 'failed', code = CASE WHEN seq <= 3 THEN 'rate_limited'"
        " WHEN seq <= 5 THEN 'timeout' ELSE 'too_long' END"
    )
    stack.execute("UPDATE chunks SET failed = ok, ok = 0")
    again = done("jobs", "retry", "k", "--code", "rate_limited,timeout")
    assert (again["retried"], again["failed"], again["state"]) == (5, 7, "ready")
