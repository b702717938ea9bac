"""`giveway submit KIND` for kinds that have no command of their own: here, generate."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from app.kinds import registry
from tests import docs_kind
from tests.commands import done, giveway
from tests.integration.cli.conftest import Write
from tests.rig import Rig


def generated(file: str, *arguments: str) -> dict[str, object]:
    return done("submit", "generate", file, *arguments)


def test_answers_are_made_and_written_out(stack: Rig, docs: Write) -> None:
    file = docs(5)
    options = ("--id-field", "id", "--prompt", "Summarise: {{ text }}", "--max-tokens", "8")
    said = generated(file, *options, "--key", "k")
    stack.work(1)
    lines = giveway("results", "k").out.splitlines()

    assert (said["kind"], said["model"], said["total"]) == ("generate", "fake-chat", 5)
    answers = {one["key"]: one for one in map(json.loads, lines)}
    assert set(answers) == {"d0", "d1", "d2", "d3", "d4"}
    assert all(one["output"]["text"] for one in answers.values())
    assert done("jobs", "show", "k")["done"] == 5


def test_every_option_reaches_the_job(stack: Rig, docs: Write) -> None:
    options = (
        "--model fake-chat --max-tokens 9 --temperature 0.5 --system brief --prompt {{text}} "
        "--name Nightly --priority 3 --weight 2.5 --max-in-flight 2 --chunk-items 7 --no-yield "
        "--text-field text --id-field id --format jsonl --field title=text --field n=id"
    )
    generated(docs(), *options.split())
    shown = done("jobs", "show", "1", "--chunks")

    assert shown["params"] == {
        "model": "fake-chat",
        "prompt": "{{text}}",
        "system": "brief",
        "max_tokens": 9,
        "temperature": 0.5,
    }
    asked = ("name", "priority", "weight", "max_in_flight")
    assert [shown[name] for name in asked] == ["Nightly", 3, 2.5, 2]
    assert len(shown["chunks"]) == 18
    assert stack.one("SELECT may_yield FROM jobs") is False
    assert stack.one("SELECT payload FROM items WHERE seq = (SELECT min(seq) FROM items)") == {
        "text": "text number 0",
        "title": "text number 0",
        "n": "d0",
    }


def test_what_is_left_out_is_the_kinds_own_default(stack: Rig, docs: Write) -> None:
    generated(docs())
    shown = done("jobs", "show", "1")

    assert shown["params"]["prompt"] == "{{ text }}"
    assert shown["params"]["max_tokens"] == 256
    assert stack.one("SELECT may_yield FROM jobs") is True


def test_calls_of_an_embedding_job_too_are_left_alone_where_that_is_asked(
    stack: Rig, docs: Write
) -> None:
    done("submit", "embed", docs(), "--no-yield")

    assert stack.one("SELECT may_yield FROM jobs") is False


def test_going_on_with_what_was_streamed_is_asked_for_by_an_option(
    stack: Rig, docs: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = giveway("submit", "generate", docs(), "--resume-streamed")
    assert (ran.code, stack.one("SELECT count(*) FROM jobs")) == (2, 0)
    assert "no endpoint that serves fake-chat goes on with an answer" in ran.err

    (declared,) = json.loads(os.environ["GIVEWAY_ENDPOINTS"])
    monkeypatch.setenv("GIVEWAY_ENDPOINTS", json.dumps([{**declared, "kind": "vllm"}]))
    generated(docs(), "--resume-streamed", "--key", "a")
    generated(docs(), "--key", "b", "--max-tokens", "9")
    assert stack.rows("SELECT key, resume_streamed FROM jobs ORDER BY key") == [
        ("a", True),
        ("b", False),
    ]
    nightly = ("schedules", "add", "nightly", "--cron", "0 2 * * *", "--")
    giveway(*nightly, "submit", "generate", docs(), "--resume-streamed")
    assert done("schedules", "list")["schedules"][0]["job"]["resume_streamed"] is True


def test_the_same_request_again_is_the_same_job_and_other_fields_are_another(
    stack: Rig, docs: Write
) -> None:
    file = docs()
    first, second = generated(file), generated(file)
    other = generated(file, "--field", "title=text")

    assert (second["job"], second["created"]) == (first["job"], False)
    assert other["job"] != first["job"]


def test_standard_input_needs_no_name(stack: Rig) -> None:
    said = done("submit", "generate", "-", stdin=b'{"text": "one"}\n{"text": "two"}\n')

    assert said["total"] == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--max-tokens", "0"), "giveway: generate: max_tokens: Input should be greater than"),
        (("--max-tokens", "many"), "giveway: Invalid value for '--max-tokens'"),
        (("--prompt", "{{ text"), "not a template"),
        (("--model", "gpt"), "'gpt'; known: fake-chat, fake-embed"),
        (("--field", "title"), "--field wants NAME=COLUMN"),
        (("--field", "title=headline"), "'headline'"),
        (("--collection", "c"), "No such option: --collection"),
    ],
)
def test_what_cannot_be_submitted_is_said(
    stack: Rig, docs: Write, arguments: tuple[str, ...], said: str
) -> None:
    ran = giveway("submit", "generate", docs(), *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert done("jobs", "list") == {"jobs": []}


def test_it_is_said_in_words_too(stack: Rig, docs: Write, tmp_path: Path) -> None:
    ran = giveway("submit", "generate", docs(), "--key", "nightly")

    assert ran.out.splitlines() == [
        "job 1 created: 120 items, ready",
        "key nightly",
        "watch it with: giveway jobs watch nightly",
    ]


def test_a_kind_of_ones_own_is_a_command_once_the_settings_name_it(
    stack: Rig, docs: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_kind_of_the_docs.py").write_text(docs_kind.source())
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_declared", {})
    monkeypatch.setenv("GIVEWAY_KINDS__MODULES", '["own_kind_of_the_docs"]')
    registry.kinds.cache_clear()
    try:
        said = done("submit", "translate", docs(3), "--language", "French", "--key", "own")
        assert (said["kind"], said["total"]) == ("translate", 3)
        monkeypatch.setenv("GIVEWAY_KINDS__MODULES", '["not_there_at_all"]')
        refused = giveway("submit", "translate", docs(3))
        assert (refused.code, "'not_there_at_all' of [kinds] modules is not" in refused.err) == (
            2,
            True,
        )
    finally:
        registry.kinds.cache_clear()
