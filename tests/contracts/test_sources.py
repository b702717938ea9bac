"""What every source keeps, found by the registry: a new format is covered when it exists."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

import app.storage.sources as folder
from app.errors import BadSource
from app.storage.sources.base import ReadOptions, Source
from app.storage.sources.reading import read
from app.storage.sources.registry import choose, sources

OPTIONS = ReadOptions(id_field="id", text_field="text")
TEXTS = [
    "plain",
    "two\nlines",
    'a "quote", a comma; a semicolon',
    "naïve 🙂 漢字",
    "",
    "x" * 200_000,
]


def _csv(rows: list[dict[str, str]]) -> bytes:
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, ["id", "text"])
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue().encode()


def _jsonl(rows: list[dict[str, str]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _parquet(rows: list[dict[str, str]]) -> bytes:
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), buffer, row_group_size=10_000)
    return buffer.getvalue()


WRITERS: dict[str, Callable[[list[dict[str, str]]], bytes]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "parquet": _parquet,
}


@pytest.fixture(params=sorted(sources()))
def source(request: pytest.FixtureRequest) -> Source:
    return sources()[request.param]


def a_file(where: Path, source: Source, texts: list[str]) -> Path:
    path = where / f"docs{source.endings[0]}"
    path.write_bytes(
        WRITERS[source.name]([{"id": f"k{n}", "text": t} for n, t in enumerate(texts)])
    )
    return path


def test_every_source_module_is_found_and_has_a_writer_here() -> None:
    modules = {p.stem.removesuffix("_source") for p in Path(folder.__path__[0]).glob("*_source.py")}

    assert set(sources()) == modules == set(WRITERS)


def test_endings_are_small_dotted_and_claimed_once() -> None:
    endings = [ending for source in sources().values() for ending in source.endings]

    assert len(endings) == len(set(endings))
    assert all(e.startswith(".") and e == e.lower() for e in endings)


def test_text_comes_back_as_it_was_written(tmp_path: Path, source: Source) -> None:
    records = list(read(a_file(tmp_path, source, TEXTS), OPTIONS))

    assert [r.key for r in records] == [f"k{n}" for n in range(len(TEXTS))]
    assert [r.payload["text"] for r in records] == TEXTS


def test_lines_rise(tmp_path: Path, source: Source) -> None:
    lines = [r.line for r in read(a_file(tmp_path, source, TEXTS * 1), OPTIONS)]

    assert lines == sorted(set(lines))


def test_many_batches_lose_nothing(tmp_path: Path, source: Source) -> None:
    path = a_file(tmp_path, source, ["some words"] * 30_000)

    assert [r.key for r in read(path, OPTIONS)] == [f"k{n}" for n in range(30_000)]


def test_the_format_is_told_by_ending_name_and_beginning(tmp_path: Path, source: Source) -> None:
    head = a_file(tmp_path, source, ["x"]).read_bytes()

    assert choose(f"docs{source.endings[0].upper()}", b"") is source
    assert choose(f"docs{source.endings[0]}.gz", b"") is source
    assert choose("docs.txt", b"", source.name) is source
    assert choose("standard input", head) is source


def test_no_bytes_whatever_are_a_traceback(tmp_path: Path, source: Source) -> None:
    whole = a_file(tmp_path, source, ["text", "more"]).read_bytes()
    lenient = ReadOptions(id_field="id", text_field="text", lenient=True)
    for at in range(0, len(whole), 1 + len(whole) // 400):
        for junk in (b"\x00", b"\xff", b"\n", b'"', b"\r", b"\x1f\x8b", b"\xed\xa0\x80"):
            path = tmp_path / f"odd{source.endings[0]}"
            path.write_bytes(whole[:at] + junk + whole[at + 1 :])
            try:
                for record in read(path, lenient):
                    json.dumps(record.payload).encode()
                    record.key.encode()
            except BadSource as error:
                assert str(path) in str(error)  # noqa: PT017


def test_an_empty_file_is_called_empty(tmp_path: Path, source: Source) -> None:
    path = tmp_path / f"docs{source.endings[0]}"
    path.touch()

    with pytest.raises(BadSource, match="is empty"):
        list(read(path, OPTIONS))
