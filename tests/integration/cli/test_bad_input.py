"""What cannot be is told in a sentence, before anything is written: never as a bug of ours."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from tests.commands import done, giveway
from tests.integration.cli.conftest import Write
from tests.rig import Rig

LITE = "--source sqlite:///{} --id-field id --collection c"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--priority 99999999999", "priority: Input should be less than or equal to 1000000"),
        ("--weight inf", "weight: Input should be less than or equal to 1000000"),
        ("--max-in-flight 99999999999", "max_in_flight: Input should be less than"),
        ("--budget nan", "budget: Input should be"),
        ("--budget inf", "budget: Input should be a finite number"),
        ("--deadline 99999999999d", "is too long; at most 36500d"),
        ("--deadline 0s", "'0s' has passed already"),
        (f"--key {'x' * 3000}", "has 3,000 characters; it wants 1 to 200"),
        (f"--name {'x' * 201}", "has 201 characters; it wants 1 to 200"),
        ("--key $'a\\nb'", "has a control character"),
        ("--webhook https://u:SECRET@h/x --webhook-secret-env HOOK", "would be kept in the data"),
        ("--delimiter ';'", "--delimiter is for CSV; docs.jsonl is jsonl"),
        ("--encoding cp999", "no encoding 'cp999'; such as cp1252, latin-1"),
        ("--where \"text.encode('nope')\"", "--where cannot be worked out: LookupError"),
        ("--where 'text.zfill(999999999999)'", "--where cannot be worked out: MemoryError"),
        ("--where \"text.index('nope')\"", "--where cannot be worked out: ValueError"),
        ("--where 'text.foo.bar'", "has no attribute 'foo'"),
        ("--id-field idd", "no column 'idd'; did you mean 'id'?"),
    ],
)
def test_no_such_job_can_be(stack: Rig, docs: Write, options: str, said: str) -> None:
    words = shlex.split(options.replace("$'a\\nb'", "'a\nb'"))
    ran = giveway("submit", "embed", docs(3), *words)

    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert "SECRET" not in ran.err
    assert stack.one("SELECT count(*) FROM jobs") == 0


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("generate", "--prompt '{{ texxt }}'", "looks at 'texxt' of each item, but items have"),
        ("generate", "--prompt '{{ a }} {{ b }}' --field a=id", "only text, a; say which column"),
        ("generate", "--prompt '{{ text | nofilter }}'", "not a template: No filter named 'nofil"),
        ("evaluate", "--scorers exact", "looks at 'expected' of each item"),
        ("evaluate", "--scorers judge --model none", "options of judge"),
        ("evaluate", "--scorers f1 --model none --field expected=id", "looks at 'output' of each"),
    ],
)
def test_a_field_that_no_item_has_is_told_before_anything_is_paid_for(
    stack: Rig, docs: Write, kind: str, options: str, said: str
) -> None:
    ran = giveway("submit", kind, docs(3), *shlex.split(options))

    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert stack.one("SELECT count(*) FROM jobs") == 0


def test_a_prompts_fields_that_are_there_reach_it(stack: Rig, docs: Write) -> None:
    said = ("--prompt", "{{ title }}: {{ text }}", "--field", "title=id", "--max-tokens", "8")
    job = done("submit", "generate", docs(3), *said)["job"]
    assert stack.work(job).state == "completed"
    assert stack.progress(job).failed == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--scorer numeric --fail-under numeric=nan", "metrics go from 0 to 1"),
        ("--scorer numeric --fail-under numeric=80", "metrics go from 0 to 1, such as 0.8"),
        ("--scorer regex --option 'regex.pattern=('", "not a pattern: missing )"),
        ("--scorer judge --option judge.model=nobody", "no endpoint for model 'nobody'"),
        ("--scorer numeric", "name the field that says it with --expected-field"),
    ],
)
def test_no_such_evaluation_can_be(stack: Rig, docs: Write, options: str, said: str) -> None:
    words = shlex.split(options)
    ran = giveway("eval", "run", docs(3), "--output-field", "text", *words)

    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert stack.one("SELECT count(*) FROM jobs") == 0


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("", "", "the schedule's name '' has 0 characters"),
        ("n", "--jitter 99999999999d", "is too long"),
        ("n", "--jitter 2d", "jitter is at most a day"),
        ("n", "--cron @daily", "it wants five"),
        ("n", "--cron '0 2 30 2 *'", "cron '0 2 30 2 *'"),
    ],
)
def test_no_such_schedule_can_be(
    stack: Rig, docs: Write, name: str, options: str, said: str
) -> None:
    cron = () if "--cron" in options else ("--cron", "0 2 * * *")
    job = ("--", "submit", "embed", docs(3))
    ran = giveway("schedules", "add", name, *cron, *shlex.split(options), *job)

    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert stack.one("SELECT count(*) FROM schedules") == 0


def test_a_job_whose_options_stand_before_the_dashes_is_told_where_they_go(
    stack: Rig, docs: Write
) -> None:
    cron = ("--cron", "0 2 * * *")
    ran = giveway("schedules", "add", "n", *cron, "submit", "embed", docs(3), "--id-field", "id")
    assert (ran.code, "own options come after --: " in ran.err) == (2, True), ran.err
    ran = giveway("schedules", "add", "n", "--crom", "0 2 * * *", "--", "submit", "embed", docs(3))
    assert (ran.code, "No such option: --crom" in ran.err) == (2, True), ran.err
    ran = giveway("schedules", "add", "submit", *cron, "submit", "embed", docs(3))
    assert ran.code == 0, ran.err


def test_a_kind_that_is_not_there_lists_those_that_are(stack: Rig, docs: Write) -> None:
    ran = giveway("submit", "summry", docs(3))
    known = "no job kind 'summry'; known: embed, evaluate, generate, summarize"
    assert (ran.code, known in ran.err) == (2, True), ran.err


def test_an_evaluation_by_the_clock_is_told_how_to_be_written(stack: Rig, docs: Write) -> None:
    ran = giveway("schedules", "add", "n", "--cron", "0 2 * * *", "--", "eval", "run", docs(3))
    assert (ran.code, "an evaluation is `submit evaluate`" in ran.err) == (2, True)


def test_a_database_file_that_is_not_there_is_not_made(stack: Rig, tmp_path: Path) -> None:
    ran = giveway("submit", "embed", "--table", "docs", *LITE.format("missing.db").split())

    assert (ran.code, "no file missing.db" in ran.err) == (2, True), ran.err
    assert not (tmp_path / "missing.db").exists()


def test_an_array_of_json_is_told_how_to_be_written(stack: Rig) -> None:
    Path("docs.json").write_text(json.dumps([{"id": 1, "text": "a"}], indent=1))
    ran = giveway("submit", "embed", "docs.json")
    assert (ran.code, "write each of its objects on a line" in ran.err) == (2, True), ran.err


def test_a_code_that_nothing_failed_with_is_answered_with_those_there_are(
    stack: Rig, docs: Write
) -> None:
    job = done("submit", "embed", docs(4), "--id-field", "id", "--key", "k")["job"]
    stack.work(job)
    stack.execute("UPDATE results SET status = 'failed', code = 'timeout' WHERE seq <= 2")
    stack.execute("UPDATE chunks SET failed = 2, ok = ok - 2")
    said = giveway("jobs", "retry", "k", "--code", "rate_limted")

    assert said.out == "nothing of job k failed with rate_limted; its codes: timeout\n"
    assert done("jobs", "retry", "k", "--code", "rate_limted")["retried"] == 0


def test_results_that_are_no_longer_kept_are_not_taken_for_none(stack: Rig, docs: Write) -> None:
    given = ("--output-field", "text", "--expected-field", "id", "--scorer", "f1", "--no-wait")
    done("eval", "run", docs(3), *given, "--key", "k")
    stack.work(1)
    stack.execute("UPDATE jobs SET pruned_at = '2026-11-01'")
    stack.execute("DELETE FROM results")
    stack.execute("DELETE FROM items")
    for command in (("results", "k"), ("eval", "show", "k"), ("eval", "compare", "k", "k")):
        ran = giveway(*command)
        assert (ran.code, "were deleted on 2026-11-01" in ran.err) == (2, True), ran.err


def test_a_budget_that_can_stop_nothing_is_pointed_out(
    stack: Rig, docs: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("submit", "embed", docs(2), "--budget", "1")
    said = "the budget stops nothing: no endpoint of fake-embed has an input_price"
    assert said in giveway(*command).err
    (endpoint,) = json.loads(os.environ["GIVEWAY_ENDPOINTS"])
    monkeypatch.setenv("GIVEWAY_ENDPOINTS", json.dumps([{**endpoint, "input_price": 2.0}]))
    assert giveway(*command).err == ""
