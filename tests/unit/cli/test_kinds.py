"""Every kind of job is a command of `giveway submit`, made from its parameters."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import pytest
import typer
from pydantic import Field
from typer.testing import CliRunner

from app.cli.parts import kind_commands
from app.cli.parts.kind_commands import about, columns, command_of, headline
from app.cli.parts.kind_params import typed_as
from app.errors import UsageError
from app.kinds.base import Kind, Params, checked
from app.kinds.generate import Generate
from app.kinds.registry import kinds
from app.services.items import SourceItems
from app.storage.sources.base import ReadOptions
from app.storage.sources.file_origin import FilePlace
from tests.commands import giveway


class Tone(StrEnum):
    DRY = "dry"
    WARM = "warm"


class PoemParams(Params):
    """Poems are short."""

    rhymes: bool = True
    """Whether lines rhyme."""
    lines: int = 4
    tone: Tone = Tone.DRY
    form: Literal["sonnet", "haiku"] | None = None
    words: tuple[str, ...] = ()
    extra: Mapping[str, Any] = Field(default_factory=dict)
    name: str | None = None
    """Who signs."""
    about: str


class Poem(Generate):
    name = "poem"
    params = PoemParams


POEM: Kind = Poem("poem", PoemParams)  # type: ignore[assignment]


def given_to_the_kind(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, Any]:
    """The parameters that `giveway submit poem FILE …` hands to the kind."""
    seen: list[Mapping[str, Any]] = []
    monkeypatch.setattr(
        kind_commands, "submit_kind", lambda kind, told, given: seen.append(dict(given))
    )
    poem = typer.Typer()
    poem.command()(command_of(POEM))
    ran = CliRunner().invoke(poem, ["docs.csv", *arguments])
    assert ran.exit_code == 0, ran.output
    return dict(seen[0])


def test_every_kind_is_a_command_and_is_listed_with_what_it_is_for() -> None:
    said = " ".join(giveway("submit", "--help").out.replace("│", " ").split())

    assert {"embed", "generate"} <= set(kinds())
    for name, kind in kinds().items():
        assert name == "embed" or f"{name} {headline(kind)}" in said
        assert giveway("submit", name, "--help").code == 0


@pytest.mark.parametrize("name", sorted(kinds()))
def test_every_parameter_of_a_kind_is_an_option_with_a_help(name: str) -> None:
    said = giveway("submit", name, "--help").out

    for field, info in kinds()[name].params.model_fields.items():
        assert f"--{field.replace('_', '-')}" in said
        assert info.description or name == "embed"


def test_a_kind_is_told_only_what_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert given_to_the_kind(monkeypatch, "--about", "rain") == {"about": "rain"}


def test_what_is_said_reaches_the_kind_in_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    options = (
        "--about rain --no-rhymes --lines 3 --tone warm --form haiku --words wet --words cold "
        "--model m"
    )
    given = given_to_the_kind(monkeypatch, *options.split(), "--extra", '{"n": [1]}')
    params = checked(POEM, given)

    assert params == PoemParams(
        model="m",
        about="rain",
        rhymes=False,
        lines=3,
        tone=Tone.WARM,
        form="haiku",
        words=("wet", "cold"),
        extra={"n": [1]},
    )


def test_a_parameter_called_as_a_common_option_has_its_kind_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = given_to_the_kind(
        monkeypatch, "--about", "rain", "--name", "of the job", "--poem-name", "me"
    )

    assert given == {"about": "rain", "name": "me"}


def test_a_parameter_without_a_default_must_be_given() -> None:
    poem = typer.Typer()
    poem.command()(command_of(POEM))
    ran = CliRunner().invoke(poem, ["docs.csv"])

    assert (ran.exit_code, "'--about'" in ran.stderr) == (2, True)


def test_a_command_says_its_parameters_docstrings_and_defaults() -> None:
    poem = typer.Typer()
    poem.command(help=about(POEM))(command_of(POEM))
    said = CliRunner().invoke(poem, ["--help"], env={"COLUMNS": "160"}).stdout

    assert "Poems are short." in said
    assert "Whether lines rhyme; default: yes." in said
    assert "Lines; default: 4." in said
    assert "Who signs." in said


@pytest.mark.parametrize(
    ("annotation", "typed"),
    [
        (int | None, int),
        (list[float], list[float]),
        (frozenset[str], list[str]),
        (Literal["a", "b"], Literal["a", "b"]),
        (Literal[1, 2], None),
        (int | str, None),
        (list[dict[str, int]], None),
        (dict[str, int], None),
    ],
)
def test_a_type_is_an_option_of_that_type_or_else_json(annotation: Any, typed: Any) -> None:
    assert typed_as(annotation) == typed


def test_fields_are_columns_by_name() -> None:
    assert columns(["title=headline", "a=b=c"]) == {"title": "headline", "a": "b=c"}


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["title"], "NAME=COLUMN"),
        (["=x"], "NAME=COLUMN"),
        (["text=body"], "--text-field"),
        (["a=b", "a=c"], "twice"),
    ],
)
def test_a_field_that_cannot_be_says_what_would_be_right(texts: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        columns(texts)


def test_the_fields_chosen_are_part_of_what_a_job_is_identified_by(tmp_path: Path) -> None:
    file = tmp_path / "docs.jsonl"
    file.write_text('{"text": "a", "b": 1}\n')
    hashes = {
        SourceItems(FilePlace(file), options).content_hash()
        for options in (
            ReadOptions(text_field="text"),
            ReadOptions(text_field="text", fields={}),
            ReadOptions(text_field="text", fields={"b": "b"}),
            ReadOptions(text_field="text", fields={"c": "b"}),
        )
    }

    assert len(hashes) == 3


def test_parameters_that_cannot_be_are_refused_before_anything_is_opened() -> None:
    ran = giveway("submit", "generate", "no.jsonl", "--prompt", "{{ text")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("giveway: generate: prompt: not a template")


def test_who_asks_for_no_kind_does_not_wait_for_kinds() -> None:
    code = (
        "import sys\nfrom app.cli.main import main\nsys.argv = ['giveway', '--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print([m for m in sys.modules if m.startswith('app.kinds') or m == 'numpy'],"
        " file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stderr.strip() == "[]"
