"""Choosing among the records of a file: an expression over the fields, and a limit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.errors import BadSource, UsageError
from app.storage.sources.base import Asked, ReadOptions
from app.storage.sources.origins import kept_as, place_of
from app.storage.sources.reading import read

ROWS = [
    {"id": f"k{n}", "text": f"text {n}", "lang": "de" if n % 3 else "en", "words": n}
    for n in range(12)
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "docs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def chosen(file: Path, where: str | None, limit: int | None = None, **more: bool) -> list[str]:
    options = ReadOptions("id", "text", where=where, limit=limit, **more)
    return [record.key for record in read(file, options)]


def test_an_expression_over_the_fields_chooses(file: Path) -> None:
    assert chosen(file, 'lang == "en" and words > 3') == ["k6", "k9"]
    assert chosen(file, "'7' in text or words in [1, 2]") == ["k1", "k2", "k7"]


def test_a_csv_has_texts_only(tmp_path: Path) -> None:
    path = tmp_path / "docs.csv"
    path.write_text("id,text,words\na,x,3\nb,y,20\n")

    assert chosen(path, "words | int > 10") == ["b"]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ('lang = "de"', "is no expression"),
        ("lang ==", "is no expression"),
        ("1 == 1", "speaks of no field"),
        ("{{ lang }}", "is no expression"),
    ],
)
def test_what_is_no_expression_is_refused(file: Path, where: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        chosen(file, where)


def test_a_field_that_is_not_there_is_named_with_the_nearest(file: Path) -> None:
    with pytest.raises(BadSource, match="no column 'langg'; did you mean 'lang'"):
        chosen(file, 'langg == "de"')


@pytest.mark.parametrize("where", ["text.__class__", "text.__class__.__mro__", "words > text"])
def test_an_expression_reaches_nothing_but_the_fields(file: Path, where: str) -> None:
    try:
        assert chosen(file, where, lenient=True) == []
    except BadSource as error:
        assert "--where" in str(error.lines)  # noqa: PT017


def test_an_expression_that_fails_makes_a_bad_line(file: Path) -> None:
    with file.open("a") as out:
        out.write('{"id": "odd", "text": "x", "lang": "de", "words": null}\n')
    with pytest.raises(BadSource, match="1 of 13 records") as caught:
        chosen(file, "words > 3")
    assert caught.value.lines[0].startswith("line 13: --where cannot be worked out")


def test_a_limit_ends_the_reading_before_what_is_bad(file: Path) -> None:
    with file.open("a") as out:
        out.write("not json\n")

    assert chosen(file, None, 5) == ["k0", "k1", "k2", "k3", "k4"]
    assert chosen(file, 'lang == "en"', 2) == ["k0", "k3"]
    with pytest.raises(BadSource):
        chosen(file, None, 13)


def test_records_keep_their_number_in_the_file(file: Path) -> None:
    options = ReadOptions(text_field="text", where="words in [3, 7]")

    assert [record.key for record in read(file, options)] == ["4", "8"]


def test_a_path_is_kept_as_a_full_one(file: Path, tmp_path: Path) -> None:
    assert kept_as("docs.jsonl", tmp_path) == str(file)
    assert kept_as("env:DOCS", tmp_path) == "env:DOCS"
    assert kept_as("postgresql://u@h/d", tmp_path) == "postgresql://u@h/d"
    assert kept_as("hf:owner/name@train", tmp_path) == "hf:owner/name@train"
    assert kept_as("sqlite:///own.db", tmp_path) == f"sqlite:///{tmp_path}/own.db"
    assert kept_as(f"sqlite:///{tmp_path}/own.db", Path("/")) == f"sqlite:///{tmp_path}/own.db"
    assert kept_as("sqlite://", tmp_path) == "sqlite://"
    with pytest.raises(UsageError, match="is no UTF-8"):
        kept_as("caf\udce9.csv", tmp_path)
    with pytest.raises(UsageError, match="standard input"):
        kept_as("-", tmp_path)
    for url in ("postgresql://u:SECRET@h/d", "postgresql://u@h/d?password=SECRET"):
        with pytest.raises(UsageError, match="env:NAME") as caught:
            kept_as(url, tmp_path)
        assert "SECRET" not in str(caught.value)


def test_a_file_that_is_not_there_is_said_when_it_is_read() -> None:
    assert place_of(Asked("no/such.csv")).shown_as == "no/such.csv"
    with pytest.raises(BadSource, match=r"no file no/such\.csv"):
        list(read(Path("no/such.csv"), ReadOptions()))
