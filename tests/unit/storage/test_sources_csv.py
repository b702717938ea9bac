"""CSV as the world writes it: delimiters, quotes, long cells, ragged rows."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.errors import BadSource
from app.storage.sources.base import ReadOptions, Record
from app.storage.sources.reading import Report, read

OPTIONS = ReadOptions(id_field="id", text_field="text", lenient=True)


def reading_of(
    folder: Path, content: str | bytes, options: ReadOptions = OPTIONS
) -> tuple[list[Record], Report]:
    path = folder / "docs.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    reading = read(path, options)
    return list(reading), reading.report


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_delimiter_is_found_from_the_header(tmp_path: Path, delimiter: str, end: str) -> None:
    content = end.join(delimiter.join(row) for row in (["id", "text"], ["1", "x"], ["2", "y"]))

    records, report = reading_of(tmp_path, content)

    assert records == [(2, "1", {"text": "x"}), (3, "2", {"text": "y"})]
    assert report.bad == 0


def test_the_delimiter_is_the_one_that_gives_the_wanted_columns(tmp_path: Path) -> None:
    records, _ = reading_of(tmp_path, 'id;text;"a, b, c, d"\n1;x;y\n')

    assert records == [(2, "1", {"text": "x"})]


@pytest.mark.parametrize("given_as", ["tab", "\\t", "\t"])
def test_a_delimiter_can_be_given(tmp_path: Path, given_as: str) -> None:
    options = ReadOptions(id_field="id", fields={"t": "a,b"}, delimiter=given_as)

    assert reading_of(tmp_path, "id\ta,b\n1\tx\n", options)[0] == [(2, "1", {"t": "x"})]


@pytest.mark.parametrize("given_as", ["::", "", '"'])
def test_a_delimiter_is_one_character(tmp_path: Path, given_as: str) -> None:
    options = ReadOptions(id_field="id", delimiter=given_as)
    with pytest.raises(BadSource, match="no delimiter"):
        reading_of(tmp_path, "id,text\n", options)


def test_the_line_that_excel_writes_first_is_heeded(tmp_path: Path) -> None:
    assert reading_of(tmp_path, "sep=|\r\nid|text\r\n1|x\r\n")[0] == [(3, "1", {"text": "x"})]


def test_a_cell_of_sixty_lines_is_one_record_and_lines_are_still_right(tmp_path: Path) -> None:
    cell = "\n".join(f'line {n}, with ""quotes""' for n in range(60))

    records, report = reading_of(tmp_path, f'\nid,text\n1,"{cell}"\n\n2,y\nbroken\n')

    assert [(r.line, r.key) for r in records] == [(3, "1"), (64, "2")]
    assert records[0].payload["text"] == cell.replace('""', '"')
    assert report.lines == ("line 65: 1 cell where the header has 2",)


@pytest.mark.parametrize("size", [200_000, 3_000_000])
def test_large_cells_are_read(tmp_path: Path, size: int) -> None:
    records, _ = reading_of(tmp_path, f'id,text\n1,"{"x" * size}"\n2,y\n')

    assert [len(str(r.payload["text"])) for r in records] == [size, 1]


def test_ragged_rows_are_bad_lines_and_blank_lines_are_none(tmp_path: Path) -> None:
    _, report = reading_of(tmp_path, "id,text\n1\n\n   \n2,x,y\n3,z\n")

    assert report.records == 1
    assert report.lines == (
        "line 2: 1 cell where the header has 2",
        "line 5: 3 cells where the header has 2",
    )


def test_a_quote_left_open_is_one_bad_line(tmp_path: Path) -> None:
    records, report = reading_of(tmp_path, 'id,text\n1,x\n2,"open\n3,y\n')

    assert [r.key for r in records] == ["1"]
    assert report.lines == ("line 3: a quote is opened in this record and never closed",)


def test_a_quote_left_open_does_not_swallow_a_large_file(tmp_path: Path) -> None:
    row = "9," + "x" * 998 + "\n"
    _, report = reading_of(tmp_path, 'id,text\n1,"open\n' + row * 20_000)

    assert report.lines[0] == (
        "line 2: a cell is longer than 16,777,216 characters; is a quote left open?"
    )
    assert report.records > 0  # what comes after is read again


def test_a_wrong_quote_is_a_bad_line_and_the_next_is_read(tmp_path: Path) -> None:
    records, report = reading_of(tmp_path, 'id,text\n1,"a"b\n2,y\n')

    assert [r.key for r in records] == ["2"]
    assert report.lines[0].startswith("line 2: not CSV: ")


def test_wrong_bytes_are_named_with_line_and_offset(tmp_path: Path) -> None:
    content = b'id,text\n1,x\n2,"a\nb\xe9c"\n3,y\n'

    records, report = reading_of(tmp_path, content)

    assert [r.key for r in records] == ["1", "3"]
    at = f"line 3: not UTF-8: byte 0xe9 at offset {content.index(0xE9)}"
    assert report.lines == (f"{at}; if it is cp1252, say so with --encoding cp1252",)


def test_wrong_bytes_in_the_header_are_a_fault_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(BadSource, match="the header: not UTF-8: byte 0xe9 at offset 3"):
        reading_of(tmp_path, b"id,\xe9,text\n1,2,3\n")


def test_nul_is_cleaned(tmp_path: Path) -> None:
    records, report = reading_of(tmp_path, "id,text\n1,a\x00b\n")

    assert records[0].payload == {"text": "ab"}
    assert report.cleaned == 1


def test_a_header_alone_has_no_records(tmp_path: Path) -> None:
    assert reading_of(tmp_path, "id,text\n") == ([], Report())


def test_a_header_alone_must_still_have_the_columns(tmp_path: Path) -> None:
    with pytest.raises(BadSource, match=r"no column 'text'; did you mean 'texts'\?"):
        reading_of(tmp_path, "id,texts\n")


def test_columns_are_stripped_and_twins_are_refused_only_where_used(tmp_path: Path) -> None:
    assert reading_of(tmp_path, "id , text,,\n1,x,,\n")[0] == [(2, "1", {"text": "x"})]
    with pytest.raises(BadSource, match="the column 'text' is there twice"):
        reading_of(tmp_path, "id,text,text\n1,x,y\n")


def test_one_column_is_enough(tmp_path: Path) -> None:
    options = ReadOptions(text_field="text")

    records, report = reading_of(tmp_path, 'text\nhello\n\n""\n', options)

    assert records == [(2, "1", {"text": "hello"}), (4, "2", {"text": ""})]
    assert report.blank == 1


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=8)


@given(st.lists(st.tuples(CELLS, CELLS), max_size=8), st.sampled_from([",", ";", "\t", "|"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_what_csv_writes_is_what_is_read(
    tmp_path: Path, rows: list[tuple[str, str]], delimiter: str
) -> None:
    path = tmp_path / "docs.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([("a", "b"), *rows])

    found = [
        tuple(r.payload.values()) for r in read(path, ReadOptions(fields={"a": "a", "b": "b"}))
    ]

    assert found == rows
