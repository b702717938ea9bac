"""What identifies a submission: the bytes, and how they are read."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path
from typing import Any

import pytest

from app.cli.parts.items import FileItems, on_disk
from app.errors import BadSource
from app.storage.sources.base import ReadOptions

LINES = '{"id": "a", "text": "one", "other": "x"}\n{"id": "b", "text": "two", "other": "y"}\n'


def items(path: Path, **options: Any) -> FileItems:
    given = {"id_field": "id", "text_field": "text", **options}
    return FileItems(path, ReadOptions(**given), str(path), lambda _: None, lambda _: None)


@pytest.fixture
def file() -> Path:
    path = Path("docs.jsonl")
    path.write_text(LINES)
    return path


@pytest.mark.parametrize(
    "other", [{"id_field": None}, {"text_field": "other"}, {"lenient": True}, {"delimiter": ";"}]
)
def test_the_same_bytes_read_otherwise_are_another_content(file: Path, other: Any) -> None:
    assert items(file, **other).content_hash() != items(file).content_hash()


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

    with on_disk("-", tmp_path) as (path, shown_as):
        assert (path.read_text(), shown_as, path.parent) == (LINES, "standard input", tmp_path)
    assert not path.exists()
