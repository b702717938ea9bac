"""Hugging Face data sets on disk; the hub itself is out of reach of a test."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from app.errors import BadSource, MissingPart, UsageError
from app.storage.sources.base import Asked, ReadOptions, Record
from app.storage.sources.hf_origin import Named, named
from app.storage.sources.origins import place_of
from app.storage.sources.reading import Reading

OPTIONS = ReadOptions(id_field="id", text_field="text")


@pytest.fixture(scope="module")
def datasets() -> Any:
    return pytest.importorskip("datasets", reason="the extra `datasets` is not installed")


@pytest.fixture
def rows(datasets: Any) -> Any:
    return datasets.Dataset.from_list(
        [{"id": n, "text": f"text {n}" if n else None, "lang": "en"} for n in range(2500)]
    )


def records(uri: str, options: ReadOptions = OPTIONS) -> list[Record]:
    return list(Reading(place_of(Asked(uri)), options))


def test_a_saved_data_set_is_read_in_batches(rows: Any, tmp_path: Path) -> None:
    rows.save_to_disk(str(tmp_path / "set"))
    found = records(f"hf:{tmp_path}/set")

    assert len(found) == 2500
    assert (found[0].key, found[0].payload) == ("0", {"text": ""})
    assert (found[2499].key, found[2499].payload) == ("2499", {"text": "text 2499"})


def test_a_split_is_named_or_the_only_one(rows: Any, datasets: Any, tmp_path: Path) -> None:
    both = datasets.DatasetDict({"train": rows, "few": rows.select(range(3))})
    both.save_to_disk(str(tmp_path / "both"))

    assert len(records(f"hf:{tmp_path}/both")) == 2500
    assert len(records(f"hf:{tmp_path}/both@few")) == 3
    with pytest.raises(BadSource, match="no split 'test'; name one of train, few"):
        records(f"hf:{tmp_path}/both@test")


def test_an_expression_and_a_limit_choose(rows: Any, tmp_path: Path) -> None:
    rows.save_to_disk(str(tmp_path / "set"))
    options = ReadOptions("id", "text", where='lang == "en" and id > 9', limit=2)

    assert [r.key for r in records(f"hf:{tmp_path}/set", options)] == ["10", "11"]


def test_a_column_that_is_not_there_is_named(rows: Any, tmp_path: Path) -> None:
    rows.save_to_disk(str(tmp_path / "set"))
    with pytest.raises(BadSource, match="no column 'body'; columns: id, text, lang"):
        records(f"hf:{tmp_path}/set", ReadOptions("id", "body"))


def test_a_hub_out_of_reach_is_told_in_a_line(
    datasets: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    with pytest.raises(BadSource, match="needs a network") as caught:
        records("hf:nobody/has-this@train")
    assert "\n" not in str(caught.value)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingPart, match=r"giveway\[datasets\]"):
        records("hf:owner/name")


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("hf:imdb", Named("imdb", None, None)),
        ("hf:owner/name@test", Named("owner/name", None, "test")),
        ("hf:owner/name/en@train", Named("owner/name", "en", "train")),
        ("hf:/no/such/folder@train", Named("/no/such/folder", None, "train")),
    ],
)
def test_names_are_read(uri: str, expected: Named) -> None:
    assert named(uri) == expected


@pytest.mark.parametrize("uri", ["hf:", "hf:a b", "hf:a/b/c/d"])
def test_what_is_no_name_is_refused(uri: str) -> None:
    with pytest.raises(UsageError, match="no data set"):
        named(uri)
