"""Encodings, compression, standard input and hashes of files."""

from __future__ import annotations

import codecs
import gzip
import io
from hashlib import blake2b
from pathlib import Path

import pytest

from app.errors import BadSource
from app.storage.sources.base import ReadOptions
from app.storage.sources.reading import read
from app.storage.sources.spooling import file_hash, spooled

OPTIONS = ReadOptions(id_field="id", text_field="text")
CONTENTS = {
    "docs.csv": 'id,text\r\n1,"naïve 🙂"\r\n2,漢字\r\n',
    "docs.jsonl": '{"id": 1, "text": "naïve 🙂"}\r\n{"id": 2, "text": "漢字"}\r\n',
}
ENCODINGS = {
    "UTF-8": (b"", "utf-8"),
    "UTF-8 with BOM": (codecs.BOM_UTF8, "utf-8"),
    "UTF-16 LE": (codecs.BOM_UTF16_LE, "utf-16-le"),
    "UTF-16 BE": (codecs.BOM_UTF16_BE, "utf-16-be"),
    "UTF-32 LE": (codecs.BOM_UTF32_LE, "utf-32-le"),
    "UTF-32 BE": (codecs.BOM_UTF32_BE, "utf-32-be"),
}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", CONTENTS)
def test_every_encoding_gives_the_same_records(
    tmp_path: Path, name: str, encoding: str, compressed: bool
) -> None:
    mark, codec = ENCODINGS[encoding]
    content = mark + CONTENTS[name].encode(codec)
    path = tmp_path / (name + ".gz" * compressed)
    path.write_bytes(gzip.compress(content) if compressed else content)
    reading = read(path, OPTIONS)

    assert [(r.key, r.payload["text"]) for r in reading] == [("1", "naïve 🙂"), ("2", "漢字")]
    assert encoding in reading.describe()


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", CONTENTS)
def test_utf_16_without_a_mark_is_told_from_its_zero_bytes(
    tmp_path: Path, name: str, codec: str
) -> None:
    path = tmp_path / name
    path.write_bytes(CONTENTS[name].encode(codec))

    assert [r.payload["text"] for r in read(path, OPTIONS)] == ["naïve 🙂", "漢字"]


def test_a_large_utf_16_file_is_read_across_its_buffers(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    lines = "".join(f'{{"id": {n}, "text": "🙂 é {n}"}}\n' for n in range(20_000))
    path.write_bytes(codecs.BOM_UTF16_LE + lines.encode("utf-16-le"))

    assert [r.payload["text"] for r in read(path, OPTIONS)] == [f"🙂 é {n}" for n in range(20_000)]


def test_a_lone_surrogate_in_utf_16_is_cleaned(tmp_path: Path) -> None:
    for name, content in (
        ("a.jsonl", '{"id": 1, "text": "x\ud800y"}'),
        ("a.csv", "id,text\n1,x\ud800y"),
    ):
        path = tmp_path / name
        path.write_bytes(codecs.BOM_UTF16_LE + content.encode("utf-16-le", "surrogatepass"))
        reading = read(path, OPTIONS)

        assert [r.payload["text"] for r in reading] == ["x\ufffdy"]
        assert reading.report.cleaned == 1


def test_files_that_are_cut_off_say_so(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    content = CONTENTS["docs.jsonl"]
    path.write_bytes(codecs.BOM_UTF16_LE + content.encode("utf-16-le")[:-1])
    with pytest.raises(BadSource, match="is cut off or not utf-16-le: byte"):
        list(read(path, OPTIONS))

    path.write_bytes(gzip.compress(content.encode() * 1000)[:-20])
    with pytest.raises(BadSource, match="the gzip file is cut off"):
        list(read(path, OPTIONS))

    path.write_bytes(b"\x1f\x8bnonsense")
    with pytest.raises(BadSource, match="the gzip file is damaged"):
        list(read(path, OPTIONS))


def test_offsets_count_the_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    content = codecs.BOM_UTF8 + b'{"id": 1, "text": "x"}\n{"id": 2, "text": "\xff"}\n'
    path.write_bytes(content)

    with pytest.raises(BadSource) as caught:
        list(read(path, OPTIONS))

    at = f"line 2: not UTF-8: byte 0xff at offset {content.index(0xFF)}"
    assert caught.value.lines == (f"{at}; if it is cp1252, say so with --encoding cp1252",)


def test_standard_input_is_spooled_with_the_hash_its_file_has(tmp_path: Path) -> None:
    content = b"x" * 3_000_000

    result = spooled(io.BytesIO(content), tmp_path / "new folder")

    assert result.path.read_bytes() == content
    assert result.path.stat().st_mode & 0o077 == 0
    assert result.size_bytes == len(content)
    assert result.content_hash == file_hash(result.path)
    assert result.content_hash == blake2b(content, digest_size=16).digest()


def test_a_spool_that_fails_leaves_nothing(tmp_path: Path) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        spooled(Broken(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_hashing_reports_its_progress(tmp_path: Path) -> None:
    path = tmp_path / "big"
    path.write_bytes(b"x" * 2_500_000)
    told: list[int] = []

    file_hash(path, told.append)

    assert told == [1 << 20, 2 << 20, 2_500_000]
    with pytest.raises(BadSource, match="no file"):
        file_hash(tmp_path / "missing")
