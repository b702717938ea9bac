"""`giveway export`, `results`, `search` and `collections`: what was made comes out again."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.commands import done, giveway
from tests.rig import Rig


@pytest.fixture
def embedded(stack: Rig) -> Rig:
    """A collection `docs` with vectors of 60 texts, one of them blank."""
    texts = [f"text number {n}" for n in range(59)] + [""]
    texts[7] = "the river runs under the old bridge"
    stack.work(stack.submit(texts).job.id)
    return stack


def test_a_collection_is_exported_whole_and_as_it_is_stored(embedded: Rig) -> None:
    said = done("export", "docs", "--format", "jsonl", "--output", "out.jsonl")
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]

    assert (said["rows"], said["format"], said["output"]) == (59, "jsonl", "out.jsonl")
    assert said["bytes"] == Path("out.jsonl").stat().st_size
    assert list(rows[0]) == ["key", "hash", "model", "vector"]
    assert {row["model"] for row in rows} == {"fake-embed"}
    stored = {
        key: (content_hash.hex(), np.fromstring(vector[1:-1], np.float32, sep=","))
        for key, content_hash, vector in embedded.rows(
            "SELECT key, content_hash, CAST(vector AS text) FROM embeddings"
        )
    }
    assert {row["key"] for row in rows} == set(stored)
    for row in rows:
        assert row["hash"] == stored[row["key"]][0]
        assert np.array_equal(np.asarray(row["vector"], np.float32), stored[row["key"]][1])


def test_rows_go_to_standard_output_and_the_summary_to_standard_error(embedded: Rig) -> None:
    ran = giveway("export", "docs", "--format", "csv")
    rows = list(csv.DictReader(ran.out.splitlines()))

    assert (ran.code, len(rows), list(rows[0])) == (0, 59, ["key", "hash", "model", "vector"])
    assert ran.err.startswith("59 rows, ")


def test_the_format_follows_the_file_name(embedded: Rig) -> None:
    assert done("export", "docs", "-o", "out.csv")["format"] == "csv"


def test_a_file_that_is_there_is_written_over_only_by_force(embedded: Rig) -> None:
    Path("mine.jsonl").write_text("mine")
    Path("mine.html").write_text("mine")
    for words in (
        ("export", "docs", "-o", "mine.jsonl"),
        ("collections", "export", "docs", "-o", "mine.jsonl"),
        ("results", "job", "-o", "mine.jsonl"),
        ("report", "--html", "mine.html"),
    ):
        name = words[-1]
        ran = giveway(*words)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == f"giveway: {name} is there already; --force writes over it\n"
        assert Path(name).read_text() == "mine"
        assert giveway(*words, "--force").code == 0
        assert Path(name).read_text() != "mine"
        Path(name).write_text("mine")


@pytest.mark.parametrize("name", ["out.txt", "out", "out.jsonl.gz", "out.json"])
def test_an_ending_that_no_format_has_is_refused(embedded: Rig, name: str) -> None:
    for words in (("export", "docs"), ("results", "job")):
        ran = giveway(*words, "--output", name)
        assert (ran.code, "end the name in one of" in ran.err) == (2, True)
        assert not Path(name).exists()
        assert done(*words, "--output", name, "--format", "jsonl")["format"] == "jsonl"
        Path(name).unlink()
    assert "a page is a .html" in giveway("report", "--html", name).err


def test_a_collection_that_is_not_there_leaves_no_file(embedded: Rig) -> None:
    ran = giveway("export", "dogs", "--output", "out.jsonl")

    assert (ran.code, ran.err) == (2, "giveway: no collection 'dogs'; known: docs\n")
    assert [path.name for path in Path().glob("*out*")] == []


def test_results_of_a_job_come_in_the_order_of_its_file(embedded: Rig) -> None:
    said = done("results", "job", "--output", "results.jsonl")
    rows = [json.loads(line) for line in Path("results.jsonl").read_text().splitlines()]

    assert (said["key"], said["rows"]) == ("job", 60)
    assert [row["key"] for row in rows] == [f"k{n}" for n in range(60)]
    assert (rows[0]["status"], rows[59]["status"]) == ("done", "empty")
    assert list(rows[0]) == ["key", "status", "code", "error", "tokens", "output"]


def test_a_search_finds_what_is_meant(embedded: Rig) -> None:
    said = done("search", "docs", "water beneath an ancient crossing", "--limit", "3")

    assert said["hits"][0]["key"] == "k7"
    assert said["hits"][0]["text"] == "the river runs under the old bridge"
    assert len(said["hits"]) == 3
    assert "k7\n       the river runs" in giveway("search", "docs", "a river and a bridge").out


def test_a_search_in_nothing_says_so(embedded: Rig) -> None:
    ran = giveway("search", "dogs", "x")

    assert (ran.code, ran.err) == (2, "giveway: no collection 'dogs'; known: docs\n")
    assert giveway("search", "docs", "  ").code == 2


def test_collections_are_listed(embedded: Rig) -> None:
    said = done("collections")["collections"]

    assert [(c["name"], c["model"], c["vectors"]) for c in said] == [("docs", "fake-embed", 59)]
    assert "docs        fake-embed" in giveway("collections").out


def test_no_collections_say_how_to_get_one(stack: Rig) -> None:
    assert giveway("collections").out.startswith("no collections; make one with:")


def test_vectors_are_compared_with_what_a_source_gives_now(stack: Rig) -> None:
    """A row that was changed, one that was added and one that is gone, each by its key."""
    rows = [{"id": f"d{n}", "text": f"text {n}"} for n in range(30)]
    path = Path("docs.jsonl")
    path.write_text("\n".join(map(json.dumps, rows)))
    stack.work(done("submit", "embed", "docs.jsonl", "--id-field", "id")["job"])
    command = ("embeddings", "verify", "docs", "docs.jsonl", "--id-field", "id")
    said = done(*command)
    assert (said["sound"], said["compared"], said["against"]) == (True, 30, "the source")

    rows[3]["text"] = "another text"
    path.write_text("\n".join(map(json.dumps, [*rows[:-1], {"id": "new", "text": "new"}])))
    asked = stack.endpoint.ledger()["requests"]
    ran = giveway(*command, "--json")
    assert (ran.code, ran.document["sound"]) == (1, False)
    assert ran.document["faults"] == {
        "missing": {"count": 1, "keys": ["new"]},
        "stale": {"count": 1, "keys": ["d3"]},
        "orphan": {"count": 1, "keys": ["d29"]},
    }
    assert done("embeddings", "verify", "docs")["sound"], "the ledger is of before"
    assert stack.endpoint.ledger()["requests"] == asked
    stack.execute("UPDATE jobs SET pruned_at = now()")
    stack.execute("DELETE FROM items")
    ran = giveway("embeddings", "verify", "docs")
    assert (ran.code, "are no longer kept" in ran.err) == (2, True), ran.err
    assert giveway(*command, "--json").document["faults"]["stale"]["keys"] == ["d3"]
    refused = giveway(*command[:4], "--id-field", "idd")
    assert (refused.code, "did you mean 'id'" in refused.err) == (2, True)
