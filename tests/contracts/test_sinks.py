"""What every sink keeps, found by the registry: a new format is covered when it exists."""

from __future__ import annotations

import csv
import io
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import app.storage.sinks as folder
from app.errors import UnknownName, UsageError
from app.storage.sinks.base import Row, Sink
from app.storage.sinks.registry import choose, sinks
from app.storage.sinks.writing import whole

COLUMNS = ("key", "hash", "vector", "note")
VECTOR = np.asarray([0.1, -2.5e-8, 1.0], dtype=np.float32)
KEYS = ["plain", "two\nlines", 'a "quote", a comma', "naïve 🙂 漢字", ""]


def rows(keys: list[str]) -> list[Row]:
    return [
        {"note": None, "key": key, "hash": b"\x01\xff", "vector": VECTOR, "unasked": 1}
        for key in keys
    ]


def read_csv(data: bytes) -> list[dict[str, Any]]:
    text = data.decode()
    found = csv.DictReader(io.StringIO(text, newline=""))
    return [
        {**row, "vector": json.loads(row["vector"]), "note": row["note"] or None} for row in found
    ]


def read_jsonl(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.decode().split("\n") if line]


def read_parquet(data: bytes) -> list[dict[str, Any]]:
    table = parquet.read_table(io.BytesIO(data))
    if table.num_rows:
        assert table.schema.field("vector").type.value_type == pyarrow.float32()
    found: list[dict[str, Any]] = table.to_pylist()
    return found


READERS = {"csv": read_csv, "jsonl": read_jsonl, "parquet": read_parquet}
MOST_AHEAD = {"parquet": 10_000}
"""Rows that are taken before the first is written; 1,000 where nothing else is said."""


@pytest.fixture(params=sorted(sinks()))
def sink(request: pytest.FixtureRequest) -> Sink:
    return sinks()[request.param]


def written(sink: Sink, given: Any) -> tuple[bytes, int]:
    blocks = list(sink.blocks(given, COLUMNS))
    return b"".join(block for block, _ in blocks), sum(count for _, count in blocks)


def test_every_module_is_found() -> None:
    modules = {p.name for p in Path(folder.__path__[0]).glob("*_sink.py")}

    assert modules == {f"{name}_sink.py" for name in sinks()}
    assert set(READERS) == set(sinks()), "teach this test to read the new format"


def test_what_was_written_reads_back(sink: Sink) -> None:
    data, count = written(sink, rows(KEYS))
    found = READERS[sink.name](data)

    assert count == len(KEYS)
    assert [row["key"] for row in found] == KEYS
    assert list(found[0]) == list(COLUMNS)
    assert (found[0]["hash"], found[0]["note"]) == ("01ff", None)
    assert np.array_equal(np.asarray(found[0]["vector"], dtype=np.float32), VECTOR)


@pytest.mark.parametrize("name", ["csv", "jsonl"])
def test_32_bit_floats_take_no_more_digits_than_they_have(name: str) -> None:
    text = written(sinks()[name], rows(["k"]))[0].decode()

    assert "0.1,-2.5e-8,1.0" in text.replace("e-08", "e-8")


def test_many_rows_lose_nothing(sink: Sink) -> None:
    data, count = written(sink, rows([f"k{n}" for n in range(25_000)]))

    assert count == 25_000
    assert [row["key"] for row in READERS[sink.name](data)] == [f"k{n}" for n in range(25_000)]


def test_nothing_in_is_a_file_without_rows(sink: Sink) -> None:
    data, count = written(sink, [])

    assert (READERS[sink.name](data), count) == ([], 0)


def test_rows_are_taken_as_they_are_written(sink: Sink) -> None:
    taken = 0

    def endless() -> Iterator[Row]:
        nonlocal taken
        while True:
            taken += 1
            yield from rows(["k"])

    blocks = sink.blocks(endless(), COLUMNS)
    next(blocks)

    assert taken <= MOST_AHEAD.get(sink.name, 1000)
    blocks.close()  # type: ignore[attr-defined]


def test_the_format_is_told_from_the_name_or_given() -> None:
    assert choose("a/x.CSV").name == "csv"
    assert choose("x.ndjson").name == "jsonl"
    assert choose("-").name == choose("/dev/null").name == "jsonl"
    assert choose("x.csv", "jsonl").name == "jsonl"
    with pytest.raises(UnknownName, match="no format 'xml'; known: csv, jsonl, parquet"):
        choose("x", "xml")
    for name in ("x.unknown", "x", "x.jsonl.gz", "x."):
        with pytest.raises(UsageError, match=r"end the name in one of .*\.jsonl.* or say --format"):
            choose(name)
        assert choose(name, "csv").name == "csv"


def test_a_file_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("before")

    def interrupted() -> None:
        with whole(str(path)) as stream:
            stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "before"
    with whole(str(path)) as stream:
        stream.write(b"all")
        assert path.read_text() == "before"
    assert path.read_text() == "all"
    assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]


def test_a_link_still_points_where_it_did(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("before")
    (tmp_path / "link").symlink_to("real")
    with whole(str(tmp_path / "link")) as stream:
        stream.write(b"after")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "after"


def test_a_device_is_written_and_not_replaced() -> None:
    with whole("/dev/null") as stream:
        stream.write(b"gone")

    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="cannot be written: No such file"),
        whole(str(tmp_path / "no" / "out")),
    ):
        pass
