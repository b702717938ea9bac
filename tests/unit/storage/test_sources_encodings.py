"""Files in an encoding that a person names."""

from __future__ import annotations

import codecs
import gzip
from pathlib import Path
from typing import Any

import pytest

from app.errors import BadSource, UsageError
from app.services.items import SourceItems
from app.storage.sources.base import Asked, ReadOptions
from app.storage.sources.origins import place_of
from app.storage.sources.reading import Reading, read

TEXT = "naïve – 5 €"
FILES = {
    "docs.csv": f'id;text\r\n1;"{TEXT}"\r\n2;plain\r\n',
    "docs.jsonl": f'{{"id": 1, "text": "{TEXT}"}}\n{{"id": 2, "text": "plain"}}\n',
}


def said(encoding: str | None, **more: Any) -> ReadOptions:
    return ReadOptions(id_field="id", text_field="text", encoding=encoding, **more)


def texts(path: Path, encoding: str | None) -> list[Any]:
    return [record.payload["text"] for record in read(path, said(encoding))]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("encoding", ["cp1252", "Windows-1252", "gb18030", "utf-16-be", "cp1140"])
@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_in_the_encoding_that_is_named(
    tmp_path: Path, name: str, encoding: str, compressed: bool
) -> None:
    content = FILES[name].replace("–", "-").encode(encoding)
    path = tmp_path / (name + ".gz" * compressed)
    path.write_bytes(gzip.compress(content) if compressed else content)

    assert texts(path, encoding) == [TEXT.replace("–", "-"), "plain"]


def test_a_large_file_is_read_piece_by_piece_and_names_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "docs.csv"
    lines = [f"{n},é {n}".encode("cp1252") for n in range(100_000)]
    lines[70_000] = b"70000,\x81"
    content = b"id,text\n" + b"\n".join(lines)
    path.write_bytes(content)
    reading = read(path, said("cp1252", lenient=True))

    assert [r.payload["text"] for r in reading] == [f"é {n}" for n in range(100_000) if n != 70_000]
    at = f"not cp1252: byte 0x81 at offset {content.index(0x81)}"
    assert reading.report.lines == (f"line 70002: {at}; is that the right --encoding?",)
    assert "cp1252" in reading.describe()


def test_a_line_of_json_that_is_no_text_in_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_bytes(b'{"id": 1, "text": "x"}\n{"id": 2, "text": "\x81"}\n')
    with pytest.raises(BadSource) as caught:
        texts(path, "cp1252")
    at = "line 2: not cp1252: byte 0x81 at offset 42"
    assert caught.value.lines == (f"{at}; is that the right --encoding?",)


@pytest.mark.parametrize("name", ["cp999", "base64", "undefined", "a\0b", ""])
def test_an_encoding_that_does_not_exist_is_refused_before_anything_is_read(name: str) -> None:
    with pytest.raises(UsageError, match=r"no encoding .*; such as cp1252"):
        SourceItems(place_of(Asked("not-there.csv")), said(name))


def test_a_mark_that_says_otherwise_is_pointed_out(tmp_path: Path) -> None:
    path = tmp_path / "docs.csv"
    path.write_bytes(codecs.BOM_UTF8 + b"id,text\n1,x\n")

    assert texts(path, "utf-8") == texts(path, "utf-8-sig") == ["x"]
    with pytest.raises(BadSource, match="mark says utf-8, not cp1252; leave --encoding out"):
        texts(path, "cp1252")
    path.write_bytes("id,text\n1,x\n".encode("utf-16"))
    assert texts(path, "utf-16") == ["x"]


def test_every_text_of_a_folder_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT.encode("cp1252"))
    (tmp_path / "b.txt").write_bytes(b"\x81")
    reading = Reading(
        place_of(Asked(str(tmp_path))),
        ReadOptions(text_field="text", encoding="cp1252", lenient=True),
    )

    assert [record.payload["text"] for record in reading] == [TEXT]
    (line,) = reading.report.lines
    assert line.startswith("line 2: b.txt is not cp1252: byte 0x81 at offset 0; is that the")


def test_it_is_for_text_and_not_for_tables(tmp_path: Path) -> None:
    (tmp_path / "docs.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match=r"--encoding is for text files; .* is parquet"):
        texts(tmp_path / "docs.parquet", "cp1252")
    with pytest.raises(UsageError, match="--encoding is for files"):
        place_of(Asked(f"sqlite:///{tmp_path}/x.db", table="docs")).fitted(said("cp1252"))


def test_the_same_bytes_in_another_encoding_are_another_content(tmp_path: Path) -> None:
    path = tmp_path / "docs.csv"
    path.write_bytes(FILES["docs.csv"].encode("cp1252"))

    def content(encoding: str | None) -> bytes:
        return SourceItems(place_of(Asked(str(path))), said(encoding)).content_hash()

    assert content("cp1252") == content("WINDOWS-1252")
    assert len({content("cp1252"), content("latin-1"), content(None)}) == 3
