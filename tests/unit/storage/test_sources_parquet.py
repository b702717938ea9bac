"""What is special about Parquet: types, nulls, row groups."""

from __future__ import annotations

import datetime as dt
import gzip
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from app.errors import BadSource, MissingPart
from app.storage.sources.base import ReadOptions, Record
from app.storage.sources.reading import read

OPTIONS = ReadOptions(id_field="id", text_field="text")


def written(folder: Path, table: Any, **more: Any) -> Path:
    path = folder / "docs.parquet"
    parquet.write_table(table, path, **more)
    return path


def records(path: Path, options: ReadOptions = OPTIONS) -> list[Record]:
    return list(read(path, options))


def test_values_become_json(tmp_path: Path) -> None:
    row = {
        "id": 2**60,
        "text": "x",
        "at": dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC),
        "price": Decimal("1.50"),
        "raw": b"\xff",
        "tags": ["a", None],
        "inner": {"n": 1.5},
        "nan": float("nan"),
    }
    fields = {name: name for name in row if name not in ("id", "text")}
    path = written(tmp_path, pyarrow.Table.from_pylist([row]))
    (record,) = records(path, ReadOptions("id", "text", fields))

    assert record.key == str(2**60)
    assert record.payload == {
        "text": "x",
        "at": "2026-01-02T03:04:00+00:00",
        "price": "1.50",
        "raw": "ff",
        "tags": ["a", None],
        "inner": {"n": 1.5},
        "nan": None,
    }


def test_a_null_text_is_an_empty_one_and_a_null_id_is_none(tmp_path: Path) -> None:
    table = pyarrow.table({"id": ["a", None], "text": [None, "x"]})
    path = written(tmp_path, table)

    with pytest.raises(BadSource, match="1 of 2 records") as caught:
        records(path)
    assert caught.value.lines == ("line 2: id is null; an id is text or a number",)
    assert records(path, ReadOptions("id", "text", lenient=True)) == [Record(1, "a", {"text": ""})]


def test_nul_is_cleaned_and_doubles_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, pyarrow.table({"id": ["a", "a"], "text": ["x\x00y", "z"]}))

    with pytest.raises(BadSource) as caught:
        records(path)
    assert caught.value.lines == ("line 2: the id 'a' is on line 1 too",)
    assert records(path, ReadOptions("id", "text", lenient=True))[0].payload == {"text": "xy"}


def test_bytes_that_are_no_text_are_named_by_their_row(tmp_path: Path) -> None:
    texts = pyarrow.array([b"good", b"caf\xe9"]).view(pyarrow.string())
    path = written(tmp_path, pyarrow.table({"id": ["a", "b"], "text": texts}))

    with pytest.raises(BadSource) as caught:
        records(path)
    assert caught.value.lines == ("line 2: text is not UTF-8: byte 0xe9 at offset 3",)


def test_a_time_that_cannot_be_kept_is_named_where_somebody_asked_for_it(tmp_path: Path) -> None:
    days = pyarrow.array([0, 3_700_000], pyarrow.date32())  # the second in the year 12100
    table = pyarrow.table({"id": ["a", "b"], "text": ["x", "y"], "day": days, "lang": ["de", "de"]})
    path = written(tmp_path, table)

    assert len(records(path, ReadOptions("id", "text", where='lang == "de"'))) == 2
    assert records(path, ReadOptions("id", fields={"on": "day"}, lenient=True)) == [
        Record(1, "a", {"on": "1970-01-01"})
    ]
    for options in (
        ReadOptions("id", fields={"on": "day"}),
        ReadOptions("id", "text", where="day is string"),
    ):
        with pytest.raises(BadSource) as caught:
            records(path, options)
        assert caught.value.lines == ("line 2: day is a date32[day] that cannot be kept exactly",)


def test_a_text_in_a_binary_column_is_read_as_text(tmp_path: Path) -> None:
    """Some writers do not say of a column of bytes that it holds texts."""
    texts = pyarrow.array([b"caf\xc3\xa9", b"caf\xe9", None])
    path = written(tmp_path, pyarrow.table({"id": ["a", "b", "c"], "text": texts}))

    found = read(path, ReadOptions("id", "text", lenient=True))
    assert [record.payload["text"] for record in found] == ["café", ""]
    assert found.report.lines == ("line 2: text is not UTF-8: byte 0xe9 at offset 3",)


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    table = pyarrow.table([["a"], ["x"], ["y"]], names=["id", "text", "text"])

    with pytest.raises(BadSource, match="the column 'text' is there twice"):
        records(written(tmp_path, table))


def test_a_text_that_is_a_number_is_none(tmp_path: Path) -> None:
    path = written(tmp_path, pyarrow.table({"id": ["a"], "text": [7]}))

    with pytest.raises(BadSource) as caught:
        records(path)
    assert caught.value.lines == ("line 1: text is a number, not text",)


def test_a_column_that_is_not_there_is_named_with_the_nearest(tmp_path: Path) -> None:
    path = written(tmp_path, pyarrow.table({"id": ["a"], "Text": ["x"]}))

    with pytest.raises(BadSource, match="no column 'text'; did you mean 'Text'"):
        records(path)


def test_without_chosen_fields_the_payload_is_the_whole_row(tmp_path: Path) -> None:
    path = written(tmp_path, pyarrow.table({"id": ["a"], "n": [1]}))

    assert records(path, ReadOptions("id")) == [Record(1, "a", {"id": "a", "n": 1})]


def test_an_expression_sees_columns_that_are_not_asked_for(tmp_path: Path) -> None:
    table = pyarrow.table({"id": ["a", "b"], "text": ["x", "y"], "lang": ["de", "en"]})
    options = ReadOptions("id", "text", where='lang == "en"')

    assert [r.key for r in records(written(tmp_path, table), options)] == ["b"]


def test_a_file_without_rows_has_no_records(tmp_path: Path) -> None:
    schema = pyarrow.schema([("id", pyarrow.string()), ("text", pyarrow.string())])

    assert records(written(tmp_path, schema.empty_table())) == []


def test_one_inside_gzip_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, pyarrow.table({"id": ["a"], "text": ["x"]}))
    packed = tmp_path / "docs.parquet.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))

    with pytest.raises(BadSource, match="unpack it first"):
        records(packed)


def test_without_the_package_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, pyarrow.table({"id": ["a"], "text": ["x"]}))
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(MissingPart, match=r"giveway\[parquet\]"):
        records(path)
