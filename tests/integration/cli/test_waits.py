"""Why a job waits, wherever a job is shown, and at its submission."""

from __future__ import annotations

from pathlib import Path

from tests.commands import done, giveway
from tests.rig import Rig

OLDER = 'UPDATE workers SET serves = \'{"main": ["older"]}\''


def test_everywhere_a_job_is_shown_it_says_why_in_words_and_as_a_code(stack: Rig) -> None:
    stack.submit(["a", "b"])
    stack.execute(OLDER)
    says = "no running batch worker knows model 'fake-embed' in pool 'main' (they know older)"

    for command in ("jobs list", "jobs show job", "throttle explain", "report", "doctor"):
        said = giveway(*command.split()).out
        assert says in said, command
        assert "(unknown_model)" in said, command
    assert done("jobs", "show", "job")["waits_code"] == "unknown_model"
    for listed in (done("jobs", "list")["jobs"], done("report")["jobs"]):
        assert (listed[0]["waits_code"], says in listed[0]["waits"]) == ("unknown_model", True)


def test_a_submission_that_no_worker_can_take_up_says_so(stack: Rig, tmp_path: Path) -> None:
    stack.execute("UPDATE workers SET kinds = '{generate}'")
    docs = tmp_path / "docs.jsonl"
    docs.write_text('{"id": 1, "text": "a"}\n')
    command = ("submit", "embed", str(docs), "--collection", "docs", "--id-field", "id")
    ran = giveway(*command, "--json")

    assert ran.code == 0
    assert "giveway restart makes them read the settings again (unknown_kind)" in ran.err
    assert ran.document["waits_code"] == "unknown_kind"
