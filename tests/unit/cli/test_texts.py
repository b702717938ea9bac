"""Texts of options, and the files that hold them."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.parts.kind_params import param_options
from app.cli.parts.texts import text_of
from app.errors import UsageError
from app.kinds.base import checked, warning_of
from app.kinds.registry import kind


@pytest.fixture
def prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "prompt.txt"
    path.write_text("\ufeffSay what it is:\n\n{{ text }} é\n", encoding="utf-8")
    return path


def test_a_text_is_itself_or_what_its_file_holds(prompt: Path) -> None:
    assert text_of("Say it: {{ text }}") == "Say it: {{ text }}"
    assert text_of("@prompt.txt") == "Say what it is:\n\n{{ text }} é"
    assert text_of(f"@{prompt}") == text_of("@prompt.txt")
    assert text_of("@@all: {{ text }}") == "@all: {{ text }}"
    assert text_of("mail@host") == "mail@host"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("@nosuch.txt", "No such file or directory; for a text that begins with @, write @@"),
        ("@.", "Is a directory"),
        ("@", "wants the name of a file"),
        ("@wrong.txt", "it is no UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(prompt: Path, said: str, why: str) -> None:
    Path("wrong.txt").write_bytes(b"caf\xe9")
    with pytest.raises(UsageError, match=why):
        text_of(said)


@pytest.mark.parametrize(
    ("kind_name", "field"),
    [
        ("generate", "prompt"),
        ("generate", "system"),
        ("evaluate", "prompt"),
        ("evaluate", "system"),
        ("summarize", "focus"),
        ("embed", "prefix"),
    ],
)
def test_every_text_of_a_kind_may_stand_in_a_file(prompt: Path, kind_name: str, field: str) -> None:
    options = {one.field: one for one in param_options(kind(kind_name), ())}

    assert options[field].value("@prompt.txt") == text_of("@prompt.txt")
    assert options["model"].value("@cf/meta/llama") == "@cf/meta/llama"


def test_json_may_stand_in_a_file_too(prompt: Path) -> None:
    options = {one.field: one for one in param_options(kind("evaluate"), ())}
    Path("options.json").write_text('{"numeric": {}}\n')

    assert options["options"].value("@options.json") == {"numeric": {}}


@pytest.mark.parametrize(
    ("prompt_text", "warned"),
    [
        ("{{ text }}", False),
        ("Title: {{ title }}", False),
        ("{% for t in tags %}{{ t }}{% endfor %}", False),
        ("Summarise it.", True),
        ("Summarise {text}", True),
        ("Summarise {{ 'text' }}", True),
        ("{% raw %}{{ text }}{% endraw %}", True),
    ],
)
@pytest.mark.parametrize("name", ["generate", "evaluate"])
def test_a_prompt_that_is_the_same_for_all_items_is_a_slip(
    name: str, prompt_text: str, warned: bool
) -> None:
    one = kind(name)
    given = {"model": "m", "prompt": prompt_text}
    params = checked(one, given if name == "generate" else {**given, "scorers": ["exact"]})

    assert ("the same is asked for each" in str(warning_of(one, params))) == warned


def test_kinds_without_a_prompt_have_nothing_to_warn_of() -> None:
    embed = kind("embed")
    assert warning_of(embed, checked(embed, {"model": "m", "collection": "c"})) is None
