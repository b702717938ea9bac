"""JSONL: what counts as an object, and what is said about a line that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.storage.sources.base import ReadOptions, Record
from app.storage.sources.reading import Report, read

OPTIONS = ReadOptions(id_field="id", text_field="text", lenient=True)


def reading_of(folder: Path, content: bytes) -> tuple[list[Record], Report]:
    path = folder / "docs.jsonl"
    path.write_bytes(content)
    reading = read(path, OPTIONS)
    return list(reading), reading.report


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id": 1', "not JSON: expecting ',' delimiter at column 9"),
        (b'{"id": 1, "text": "x"} trailing', "not JSON: extra data at column 24"),
        (b"null", "null, not an object"),
        (b"5", "a number, not an object"),
        (b'"x"', "a string, not an object"),
        (b'[{"id": 1}]', "an array, not an object"),
        (
            b'{"id": 1, "text": "\xff"}',
            "not UTF-8: byte 0xff at offset 46; if it is cp1252, say so with --encoding cp1252",
        ),
        (b"[" * 100_000, "JSON nested too deeply"),
        (b'{"id": ' + b"9" * 5000 + b"}", "not JSON that can be kept: a number is too long"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: bytes, reason: str) -> None:
    records, report = reading_of(tmp_path, b'{"id": "a", "text": "x"}\r\n\n' + line + b"\r\n")

    assert len(records) == 1
    assert report.bad == 1
    assert report.lines == (f"line 3: {reason}",)


def test_the_last_line_needs_no_line_end(tmp_path: Path) -> None:
    records, _ = reading_of(tmp_path, b'{"id": 1, "text": "x"}\n{"id": 2, "text": "y"}')

    assert [r.key for r in records] == ["1", "2"]


def test_control_characters_and_lone_surrogates_are_cleaned_not_refused(tmp_path: Path) -> None:
    records, report = reading_of(
        tmp_path, b'{"id": 1, "text": "tab\there\x00"}\n{"id": 2, "text": "\\udc00!"}\n'
    )

    assert [r.payload["text"] for r in records] == ["tab\there", "\ufffd!"]
    assert (report.cleaned, report.bad) == (2, 0)


def test_a_text_of_a_million_characters_is_read(tmp_path: Path) -> None:
    text = b"x" * 1_000_000
    records, _ = reading_of(tmp_path, b'{"id": 1, "text": "' + text + b'"}\n')

    assert records[0].payload["text"] == text.decode()


def test_line_separators_inside_text_do_not_end_a_line(tmp_path: Path) -> None:
    text = "a\u2028b\u0085c\x0bd"
    records, _ = reading_of(tmp_path, f'{{"id": 1, "text": "{text}"}}\n'.encode())

    assert records[0].payload["text"] == text
