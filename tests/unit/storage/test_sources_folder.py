"""A folder of texts as a source."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from app.errors import BadSource, UsageError
from app.services.items import SourceItems
from app.storage.sources import folder_origin
from app.storage.sources.base import Asked, ReadOptions
from app.storage.sources.origins import place_of
from app.storage.sources.reading import Reading

OPTIONS = ReadOptions(text_field="text")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    for name, text in {
        "b.txt": "second",
        "a.md": "# first\r\n\r\nnaïve 🙂",
        "sub/deep/c.markdown": "third",
        "sub.txt": "between",
        "image.png": "no text",
        ".hidden.txt": "no",
        ".git/x.txt": "no",
        "empty.txt": "",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return folder


def keys(folder: Path, options: ReadOptions = OPTIONS) -> dict[str, object]:
    reading = Reading(place_of(Asked(str(folder))), options)
    return {record.key: record.payload["text"] for record in reading}


def test_each_text_is_an_item_by_its_path_in_order(notes: Path) -> None:
    found = keys(notes)

    assert list(found) == ["a.md", "b.txt", "empty.txt", "sub.txt", "sub/deep/c.markdown"]
    assert list(found) == sorted(found)
    assert found["a.md"] == "# first\r\n\r\nnaïve 🙂"
    assert found["empty.txt"] == ""


def test_encodings_are_told_as_for_every_file(notes: Path) -> None:
    (notes / "d.txt").write_bytes("zwölf".encode("utf-16"))
    (notes / "e.txt").write_bytes(b"\xef\xbb\xbfwith a mark")
    (notes / "f.txt.gz").write_bytes(gzip.compress(b"packed"))
    found = keys(notes)

    assert [found[name] for name in ("d.txt", "e.txt", "f.txt.gz")] == [
        "zwölf",
        "with a mark",
        "packed",
    ]


def test_bytes_that_are_no_text_are_named(notes: Path) -> None:
    (notes / "c.txt").write_bytes(b"caf\xe9")
    with pytest.raises(BadSource, match="1 of 6 records cannot be read") as caught:
        keys(notes)
    at = "line 3: c.txt is not UTF-8: byte 0xe9 at offset 3"
    assert caught.value.lines == (f"{at}; if it is cp1252, say so with --encoding cp1252",)

    lenient = ReadOptions(text_field="text", lenient=True)
    assert "c.txt" not in keys(notes, lenient)


def test_nul_is_cleaned_and_a_giant_file_is_refused(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (notes / "c.txt").write_bytes(b"a\x00b")
    assert keys(notes)["c.txt"] == "ab"

    monkeypatch.setattr(folder_origin, "MAX_TEXT_BYTES", 1_000_000)
    (notes / "big.txt").write_bytes(b"x" * 1_000_001)
    with pytest.raises(BadSource) as caught:
        keys(notes)
    assert "big.txt is longer than 1 MB" in caught.value.lines[0]


def test_links_are_followed_within_the_folder_only(notes: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("not yours")
    (notes / "out.txt").symlink_to(tmp_path / "secret.txt")
    (notes / "up").symlink_to(tmp_path)
    (notes / "round").symlink_to(notes)
    (notes / "in.txt").symlink_to(notes / "b.txt")
    found = keys(notes)

    assert "in.txt" in found
    assert "not yours" not in found.values()
    assert not any(key.startswith(("up/", "round/")) for key in found)


def test_a_name_that_is_no_text_is_still_a_key(notes: Path) -> None:
    path = os.fsencode(notes) + b"/\xff.txt"
    with open(path, "wb") as file:  # noqa: PTH123 - a name of bytes
        file.write(b"odd")

    assert keys(notes)["�.txt"] == "odd"


def test_an_expression_chooses_and_a_limit_ends(notes: Path) -> None:
    assert list(keys(notes, ReadOptions(text_field="text", where='name == "sub.txt"'))) == [
        "sub.txt"
    ]
    assert list(keys(notes, ReadOptions(text_field="text", limit=2))) == ["a.md", "b.txt"]


def test_content_counts_and_the_place_does_not(notes: Path, tmp_path: Path) -> None:
    def content(folder: Path) -> bytes:
        items = SourceItems(place_of(Asked(str(folder))), OPTIONS)
        try:
            return items.content_hash()
        finally:
            items.close()

    before = content(notes)
    (notes / "a.md").touch()
    moved = notes.rename(tmp_path / "elsewhere")
    assert content(moved) == before
    (moved / "a.md").rename(moved / "z.md")
    assert content(moved) != before


def test_a_folder_without_texts_is_said(tmp_path: Path) -> None:
    (tmp_path / "only.pdf").touch()
    with pytest.raises(BadSource, match="no file in it ends in"):
        keys(tmp_path)


def test_a_query_has_no_meaning_for_a_folder(notes: Path) -> None:
    with pytest.raises(UsageError, match="--query is for a database URL"):
        place_of(Asked(str(notes), "select 1"))


def test_a_folder_gives_all_there_is_and_a_file_does_not(notes: Path) -> None:
    folder, file = place_of(Asked(str(notes))), place_of(Asked(str(notes / "a.md")))

    assert (folder.whole, file.whole) == (True, False)
    assert folder.identity() == ("folder", str(notes.resolve()))
