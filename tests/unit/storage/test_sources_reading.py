"""Strict and lenient reading, ids, duplicates, cleaning: the same for every format."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import BadSource, UnknownName
from app.storage.sources.base import ReadOptions, Record
from app.storage.sources.duplicates import SeenKeys
from app.storage.sources.reading import Report, read

IDS = ReadOptions(id_field="id", text_field="text")
LENIENT = ReadOptions(id_field="id", text_field="text", lenient=True)


def a_file(folder: Path, *lines: str | bytes, name: str = "docs.jsonl") -> Path:
    path = folder / name
    path.write_bytes(b"".join(x.encode() + b"\n" if isinstance(x, str) else x for x in lines))
    return path


def refused(path: Path, options: ReadOptions = IDS) -> BadSource:
    with pytest.raises(BadSource) as caught:
        list(read(path, options))
    return caught.value


def lenient(path: Path) -> tuple[list[Record], Report]:
    reading = read(path, LENIENT)
    return list(reading), reading.report


def test_each_record_has_its_line_its_key_and_its_text(tmp_path: Path) -> None:
    path = a_file(tmp_path, '{"id": "a", "text": "one"}', "", '{"id": 7, "text": "two", "x": 1}')

    assert list(read(path, IDS)) == [(1, "a", {"text": "one"}), (3, "7", {"text": "two"})]


def test_without_an_id_field_the_record_number_is_the_key_even_past_bad_lines(
    tmp_path: Path,
) -> None:
    path = a_file(tmp_path, '{"text": "one"}', "broken", "", '{"text": "three"}')
    options = ReadOptions(text_field="text", lenient=True)

    assert [(r.line, r.key) for r in read(path, options)] == [(1, "1"), (4, "3")]


def test_fields_take_values_as_they_are(tmp_path: Path) -> None:
    path = a_file(tmp_path, '{"id": 1, "q": "why", "n": [1, null], "rest": true}')
    options = ReadOptions(id_field="id", fields={"question": "q", "numbers": "n"})

    assert next(iter(read(path, options))).payload == {"question": "why", "numbers": [1, None]}


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("1", "1"),
        ("1.0", "1"),
        ("1e3", "1000"),
        ("-0.0", "0"),
        ("1e15", "1000000000000000"),
        ("1.50", "1.5"),
        ("-2.25", "-2.25"),
        ('"1.0"', "1.0"),
    ],
)
def test_a_whole_number_is_one_key_however_it_is_written(
    tmp_path: Path, written: str, key: str
) -> None:
    path = a_file(tmp_path, f'{{"id": {written}, "text": "x"}}')

    assert list(read(path, IDS)) == [(1, key, {"text": "x"})]


def test_null_is_an_empty_text(tmp_path: Path) -> None:
    path = a_file(tmp_path, '{"id": "a", "text": null}', '{"id": "b", "text": " "}')
    reading = read(path, IDS)

    assert [record.payload for record in reading] == [{"text": ""}, {"text": ""}]
    assert reading.report.blank == 2


def test_without_chosen_fields_the_payload_is_the_whole_record(tmp_path: Path) -> None:
    path = a_file(tmp_path, '{"id": 1, "q": "why"}')

    assert next(iter(read(path, ReadOptions(id_field="id")))).payload == {"id": 1, "q": "why"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id": "b", "text": 5}', "text is a number, not text"),
        ('{"id": "b", "text": ["x"]}', "text is an array, not text"),
        ('{"id": "b"}', "no field 'text'"),
        ('{"text": "x"}', "no field 'id'"),
        ('{"id": null, "text": "x"}', "id is null; an id is text or a number"),
        ('{"id": true, "text": "x"}', "id is true or false; an id is text or a number"),
        ('{"id": {}, "text": "x"}', "id is an object; an id is text or a number"),
        ('{"id": " ", "text": "x"}', "id is empty"),
        ('{"id": NaN, "text": "x"}', "id is not a number; an id is text or a number"),
        ('{"id": "a", "text": "x"}', "the id 'a' is on line 1 too"),
        (
            '{"id": 123456789012345678901, "text": "x"}',
            "id is a number too large to keep exactly; write it as text",
        ),
        (f'{{"id": "{"é" * 1500}", "text": "x"}}', "id is 3,000 bytes long; the most is 2,000"),
    ],
)
def test_what_is_no_item_is_named_by_line(tmp_path: Path, line: str, reason: str) -> None:
    path = a_file(tmp_path, '{"id": "a", "text": "ok"}', line, '{"id": "c", "text": "ok"}')

    records, report = lenient(path)

    assert report.lines == (f"line 2: {reason}",)
    assert [r.key for r in records] == ["a", "c"]
    assert refused(path).lines == report.lines


def test_strict_gives_nothing_after_the_first_bad_line_but_counts_all(tmp_path: Path) -> None:
    path = a_file(tmp_path, '{"id": "a", "text": "ok"}', *["broken"] * 30)

    error = refused(path)

    assert (len(error.lines), error.total_bad) == (20, 30)
    assert "30 of 31 records" in str(error)
    assert "--lenient" in str(error)


def test_strict_gives_up_counting_at_ten_thousand(tmp_path: Path) -> None:
    path = a_file(tmp_path, *["broken"] * 200_000)

    error = refused(path, ReadOptions(text_field="text"))

    assert 10_000 <= error.total_bad < 200_000
    assert "10,000 records or more" in str(error)


def test_lenient_counts_good_blank_cleaned_and_bad(tmp_path: Path) -> None:
    path = a_file(
        tmp_path,
        '{"id": 1, "text": "a\\u0000b"}',
        '{"id": 2, "text": "x\\ud800y"}',
        '{"id": 3, "text": " \\u200b\\n"}',
        '{"id": 4, "text": ""}',
        "[]",
    )

    records, report = lenient(path)

    assert [r.payload["text"] for r in records] == ["ab", "x\ufffdy", "", ""]
    assert report == Report(4, 2, 2, 1, ("line 5: an array, not an object",))


def test_keys_are_cleaned_before_they_are_compared(tmp_path: Path) -> None:
    path = a_file(tmp_path, '{"id": "a", "text": "x"}', '{"id": "a\\u0000", "text": "y"}')

    assert refused(path).lines == ("line 2: the id 'a' is on line 1 too",)


def test_a_duplicate_far_away_is_found_with_both_lines(tmp_path: Path) -> None:
    lines = [f'{{"id": {n}, "text": "some words that fill the file"}}' for n in range(20_000)]
    path = a_file(tmp_path, *lines, '{"id": 3, "text": "again"}', '{"id": 3, "text": "and again"}')

    assert refused(path).lines == (
        "line 20001: the id '3' is on line 4 too",
        "line 20002: the id '3' is on line 4 too",
    )


@given(st.lists(st.lists(st.sampled_from("abcdefghij"), max_size=6), max_size=12))
def test_duplicates_are_found_as_by_a_dictionary(batches: list[list[str]]) -> None:
    seen, first, line = SeenKeys(), dict[str, int](), 0
    for keys in batches:
        lines = list(range(line + 1, line + 1 + len(keys)))
        expected = {}
        for index, key in enumerate(keys):
            if key in first:
                expected[index] = first[key]
            first.setdefault(key, lines[index])
        line += len(keys)

        assert seen.add(keys, lines) == expected


def test_an_unknown_column_is_answered_with_the_nearest_and_the_list(tmp_path: Path) -> None:
    path = a_file(tmp_path, '{"id": 1, "Text": "x", "body": "y"}')

    said = str(refused(path))

    assert said.endswith("no column 'text'; did you mean 'Text'? columns: id, Text, body")


def test_a_field_that_only_some_records_lack_is_their_fault_alone(tmp_path: Path) -> None:
    path = a_file(tmp_path, '{"id": 1}', '{"id": 2, "text": "x"}')

    assert lenient(path)[1].lines == ("line 1: no field 'text'",)


@pytest.mark.parametrize("content", [b"", b"\n\n \n", b"\xef\xbb\xbf", b"\xff\xfe"])
@pytest.mark.parametrize("name", ["docs.jsonl", "docs.csv"])
def test_an_empty_file_is_called_empty(tmp_path: Path, content: bytes, name: str) -> None:
    assert "is empty" in str(refused(a_file(tmp_path, content, name=name)))


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    assert str(refused(tmp_path / "no.jsonl")) == f"no file {tmp_path / 'no.jsonl'}"
    assert "is a folder" in str(refused(tmp_path))


def test_formats_are_told_from_ending_or_beginning_or_asked_for(tmp_path: Path) -> None:
    path = a_file(tmp_path, '{"id": 1, "text": "x"}', name="docs.data")
    assert len(list(read(path, IDS))) == 1

    path = a_file(tmp_path, "id;text", "1;x", name="stdin-1")
    assert len(list(read(path, IDS, shown_as="standard input"))) == 1

    path = a_file(tmp_path, "prose", name="notes.txt")
    assert "give --format csv or jsonl" in str(refused(path))
    with pytest.raises(UnknownName, match="no format 'xml'; known: csv, jsonl"):
        list(read(path, ReadOptions(format="xml")))


def test_messages_call_the_file_what_the_caller_calls_it(tmp_path: Path) -> None:
    path = a_file(tmp_path, "broken")

    with pytest.raises(BadSource, match=r"^standard input: 1 of 1 records"):
        list(read(path, ReadOptions(format="jsonl"), shown_as="standard input"))


def test_reading_again_starts_anew(tmp_path: Path) -> None:
    reading = read(a_file(tmp_path, '{"id": 1, "text": "x"}'), IDS)

    assert list(reading) == list(reading)
    assert reading.report.records == 1
    assert reading.describe().endswith("docs.jsonl (jsonl, UTF-8)")


def test_every_payload_can_be_written_as_json(tmp_path: Path) -> None:
    path = a_file(tmp_path, '{"id": 1, "v": [NaN, 1e999, 123456789012345678901234, "\\ud800"]}')
    reading = read(path, ReadOptions(id_field="id", fields={"v": "v"}))

    (record,) = reading

    assert orjson.dumps(record.payload).startswith(b'{"v":[null,null,1.23456789012345')
    assert reading.report.cleaned == 1
