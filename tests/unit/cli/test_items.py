"""What identifies a submission: the bytes, and how they are read."""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.cli.parts.kind_commands import collection_of
from app.errors import BadSource, UsageError
from app.services.items import SourceItems, opened_items
from app.storage.sources.base import Asked, ReadOptions
from app.storage.sources.file_origin import FilePlace
from app.storage.sources.origins import kept_as

LINES = '{"id": "a", "text": "one", "other": "x"}\n{"id": "b", "text": "two", "other": "y"}\n'


def items(path: Path, **options: Any) -> SourceItems:
    given = {"id_field": "id", "text_field": "text", **options}
    return SourceItems(FilePlace(path), ReadOptions(**given))


@pytest.fixture
def file() -> Path:
    path = Path("docs.jsonl")
    path.write_text(LINES)
    return path


@pytest.mark.parametrize(
    "other", [{"id_field": None}, {"text_field": "other"}, {"lenient": True}, {"limit": 9}]
)
def test_the_same_bytes_read_otherwise_are_another_content(file: Path, other: Any) -> None:
    assert items(file, **other).content_hash() != items(file).content_hash()


def test_another_delimiter_makes_another_content_of_the_same_csv() -> None:
    path = Path("docs.csv")
    path.write_text("id,text;more\na,one;x\n")
    options = {"text_field": None, "id_field": None}

    by = [items(path, delimiter=one, **options).content_hash() for one in (",", ";")]
    assert by[0] != by[1]


def test_the_same_bytes_are_the_same_content_wherever_they_stand(file: Path) -> None:
    elsewhere = Path("elsewhere.ndjson")
    elsewhere.write_text(LINES)

    assert items(elsewhere).content_hash() == items(file).content_hash()


def test_a_format_that_is_told_counts_as_one_that_is_given(file: Path) -> None:
    assert items(file, format="jsonl").content_hash() == items(file).content_hash()


def test_another_byte_is_another_content(file: Path) -> None:
    before = items(file).content_hash()
    file.write_text(LINES.replace("two", "zwo"))

    assert items(file).content_hash() != before


def test_rows_are_keys_with_payloads(file: Path) -> None:
    assert list(items(file).rows()) == [("a", b'{"text":"one"}'), ("b", b'{"text":"two"}')]


def test_a_compressed_file_is_read_as_what_is_in_it() -> None:
    path = Path("docs.jsonl.gz")
    path.write_bytes(gzip.compress(LINES.encode()))

    assert [key for key, _ in items(path).rows()] == ["a", "b"]


def test_a_file_that_changes_while_it_is_read_is_refused(file: Path) -> None:
    source = items(file)
    source.content_hash()
    file.write_text(LINES + LINES.replace('"a"', '"c"').replace('"b"', '"d"'))

    with pytest.raises(BadSource, match="was changed while it was read"):
        list(source.rows())


def test_standard_input_is_a_file_for_as_long_as_it_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINES.encode())))

    with opened_items(Asked("-"), ReadOptions(text_field="text"), tmp_path) as items:
        path = items.place.path
        assert path is not None
        assert (path.read_text(), path.parent) == (LINES, tmp_path)
        assert items.place.shown_as == "standard input"
    assert not path.exists()


@contextmanager
def piped(content: str, path: Path | None = None) -> Iterator[str]:
    """A pipe as a shell gives it for `<(command)`, or one that stands at `path`; written once."""
    if path is not None:
        os.mkfifo(path)
        name, write = str(path), lambda: path.write_text(content)
    else:
        read_end, write_end = os.pipe()
        name = f"/dev/fd/{read_end}"

        def write() -> int:
            with os.fdopen(write_end, "w") as file:
                return file.write(content)

    with ThreadPoolExecutor(1) as writer:
        written = writer.submit(write)
        yield name
        written.result()
    if path is None:
        os.close(read_end)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_pipe_is_read_once(tmp_path: Path, named: bool, ending: str) -> None:
    content = LINES if ending == ".jsonl" else "id,text\na,one\nb,two\n"
    with (
        piped(content, tmp_path / f"pipe{ending}" if named else None) as uri,
        opened_items(Asked(uri), ReadOptions("id", "text"), tmp_path) as items,
    ):
        assert items.size_bytes() == len(content)
        assert items.content_hash() == items.content_hash()
        assert [key for key, _ in items.rows()] == ["a", "b"]
        assert [record.key for record in items.records()] == ["a", "b"]
        assert items.place.shown_as == uri
        copy = items.place.path
    assert copy is not None
    assert not copy.exists()


def test_a_pipe_without_a_name_is_known_as_standard_input_is(tmp_path: Path) -> None:
    with piped(LINES) as uri, opened_items(Asked(uri), ReadOptions(text_field="text")) as items:
        assert items.place.identity() == ("file", "-")
        with pytest.raises(UsageError, match="cannot be read again later"):
            kept_as(uri, tmp_path)
        with pytest.raises(UsageError, match="name the collection"):
            collection_of(uri)


def test_what_is_asked_wrongly_of_a_pipe_is_refused_before_it_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")  # Nobody writes: reading would wait for ever.
    for asked in (
        Asked(str(tmp_path / "pipe.jsonl"), query="select 1"),
        Asked("-", table="docs"),
    ):
        with pytest.raises(UsageError, match="is for a database URL"):
            opened_items(asked, ReadOptions()).__enter__()
    with pytest.raises(UsageError, match="--delimiter is for CSV"):
        opened_items(Asked(str(tmp_path / "pipe.jsonl")), ReadOptions(delimiter=",")).__enter__()


def test_a_variable_may_name_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with piped(LINES) as uri:
        monkeypatch.setenv("DOCS", uri)
        with opened_items(Asked("env:DOCS"), ReadOptions("id", "text"), tmp_path) as items:
            items.content_hash()
            assert len(list(items.rows())) == 2
