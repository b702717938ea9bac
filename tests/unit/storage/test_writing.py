"""Files that people name for what is written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app.errors import UsageError
from app.storage.sinks.writing import PAGES, check_output, made_folder, whole, write_page


def refused(output: Path | str, *, force: bool = False, endings: tuple[str, ...] = ()) -> str:
    with pytest.raises(UsageError) as caught:
        check_output(str(output), force=force, what="a page", endings=endings)
    return str(caught.value)


def test_what_is_there_is_written_over_only_by_force(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    check_output(str(path), force=False)
    write_page(path, "first")

    assert refused(path) == f"{path} is there already; --force writes over it"
    assert path.read_text() == "first"
    check_output(str(path), force=True)
    write_page(path, "second")
    assert path.read_text() == "second"


def test_asking_leaves_nothing(tmp_path: Path) -> None:
    check_output(str(tmp_path / "page.html"), force=False, endings=PAGES)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("page.txt", "a page is a .html or .htm file"),
        ("page", "a page is a .html or .htm file"),
        ("nowhere/page.html", "there is no such folder"),
        ("file/page.html", "there is no such folder"),
        (f"{'x' * 300}.html", "File name too long"),
    ],
)
def test_a_file_that_cannot_be_is_refused_in_a_sentence(
    tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    assert said in refused(tmp_path / name, endings=PAGES)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert "is a folder" in refused(tmp_path, force=True)
    assert "cannot be written" in refused("/proc/page.html", endings=PAGES)


def test_standard_output_devices_and_pipes_take_all(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for output in ("-", "/dev/null", str(tmp_path / "pipe")):
        check_output(output, force=False, endings=PAGES)
    with whole("/dev/null") as stream:
        stream.write(b"x")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.html").write_text("before")
    (tmp_path / "link.html").symlink_to("real.html")

    assert "is there already" in refused(tmp_path / "link.html")
    write_page(tmp_path / "link.html", "after")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text() == "after"


@pytest.mark.parametrize("place", [lambda _: Path("/proc/foo"), lambda tmp: tmp / "file" / "deep"])
def test_a_folder_that_cannot_be_made_is_told(
    tmp_path: Path, place: Callable[[Path], Path]
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match="cannot be written"):
        made_folder(place(tmp_path))
