"""How a command fails: one clear line, an exit code, and nothing on standard output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from app import errors
from app.cli import render
from app.cli.main import build
from tests.commands import Ran, giveway


def leaves(cls: type[errors.GivewayError]) -> Iterator[type[errors.GivewayError]]:
    yield cls
    for below in cls.__subclasses__():
        yield from leaves(below)


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException, *flags: str) -> Ran:
    """`giveway fail` raises `error`."""
    app = build()

    @app.command()
    def fail() -> None:
        raise error

    monkeypatch.setattr("tests.commands.build", lambda: app)
    return giveway(*flags, "fail")


@pytest.mark.parametrize("cls", sorted(leaves(errors.GivewayError), key=lambda c: c.__name__))
def test_every_error_is_mapped(cls: type[errors.GivewayError]) -> None:
    made = (
        cls("model", "x", ["y"]) if cls is errors.UnknownName else cls("what, which, and what else")
    )
    first, *_ = render.sentences(made)

    assert first.startswith("giveway: ")
    assert "unexpected" not in first
    assert render.exit_code(made) == (2 if issubclass(cls, errors.UsageError) else 1)


def test_an_error_is_one_line_on_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = failing(monkeypatch, errors.NotFound("no job 'x'"))

    assert ran == Ran(2, "", "giveway: no job 'x'\n")


def test_passwords_in_errors_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = failing(monkeypatch, errors.BrokerUnavailable("redis://me:SECRET@host/0 is away"))

    assert (ran.code, ran.err) == (1, "giveway: redis://me:***@host/0 is away\n")


def test_bad_lines_are_listed_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"line {n}: no field 'text'" for n in (3, 7)]
    ran = failing(monkeypatch, errors.BadSource("docs.jsonl: 12 bad", lines, 12))

    assert ran.err.splitlines() == [
        "giveway: docs.jsonl: 12 bad",
        "  line 3: no field 'text'",
        "  line 7: no field 'text'",
        "  … and 10 more",
    ]


def test_a_bug_is_a_line_too_and_a_traceback_is_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = failing(monkeypatch, ZeroDivisionError("division by zero"))
    full = failing(monkeypatch, ZeroDivisionError("division by zero"), "--traceback")

    assert plain.code == full.code == 1
    assert plain.err.startswith("giveway: unexpected ZeroDivisionError: division by zero\n")
    assert "Traceback" not in plain.err
    assert "Traceback" in full.err


def test_a_database_without_tables_names_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    class UndefinedError(Exception):
        sqlstate = "42P01"

    error = RuntimeError("a page of SQL")
    error.orig = UndefinedError()  # type: ignore[attr-defined]

    assert "giveway db upgrade" in failing(monkeypatch, error).err


@pytest.mark.parametrize("error", [KeyboardInterrupt(), typer.Abort()])
def test_ctrl_c_is_exit_code_130(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    ran = failing(monkeypatch, error)

    assert (ran.code, ran.err) == (130, "giveway: stopped\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("jbos",), "giveway: No such command 'jbos'"),
        (("jobs", "list", "--stat", "x"), "giveway: No such option: --stat"),
        (("jobs", "show"), "giveway: Missing argument 'JOB'"),
        (("jobs", "list", "--limit", "many"), "giveway: Invalid value for '--limit'"),
        (("jobs", "list", "--state", "done"), "giveway: no job state 'done'; known: cancelled, "),
        (("throttle", "history", "--since", "soon"), "giveway: no duration 'soon'; write it like"),
        (("export", "docs", "--json"), "giveway: --json prints a summary; name a file"),
        (("load", "--kind", "poem"), "giveway: no kind of request 'poem'; known: chat, embed"),
        (("ask", " "), "giveway: the prompt is blank"),
        (("jobs", "list", "--config", "no.toml"), "giveway: no settings file no.toml"),
        (("db", "downgrade", "base"), "giveway: what the newer tables hold would be lost"),
    ],
)
def test_wrong_use_is_exit_code_2_and_says_what_is_wrong(
    arguments: tuple[str, ...], said: str
) -> None:
    ran = giveway(*arguments)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(said)


def test_without_a_stack_a_command_says_how_to_get_one() -> None:
    ran = giveway("jobs", "list", "--json")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("giveway: no database is known: start the stack with `giveway up`")


@pytest.mark.parametrize("place", ["/proc/foo", "file/deep", "file"])
def test_a_place_that_cannot_be_used_is_no_bug_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("in the way")
    for words in (
        ("up", "--detach", "--data", place),
        ("up", "--data", place),
        ("demo", "--output", place),
        ("status", "--data", place),
        ("down", "--data", place),
    ):
        ran = giveway(*words)
        assert "bug" not in ran.err, (words, ran.err)
        if words[0] in ("up", "demo"):
            assert (ran.code, place in ran.err) == (2, True), (words, ran.err)


def test_an_error_of_the_system_without_a_place_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "bug" in failing(monkeypatch, OSError(9, "Bad file descriptor")).err
    told = failing(monkeypatch, PermissionError(13, "Permission denied", "/root/x"))
    assert told == Ran(
        2,
        "",
        "giveway: /root/x cannot be used: Permission denied; name another place, or free this\n",
    )
