"""A folder of texts: each text or Markdown file is one row, its path in the folder its key."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from app.errors import BadSource, UsageError
from app.storage.sources.base import Asked, BadLine, Batch, ReadOptions, Row, Rows
from app.storage.sources.encodings import UTF_8, encoding_named, wrong_text
from app.storage.sources.faults import named
from app.storage.sources.filtering import Filter
from app.storage.sources.opening import opened
from app.storage.sources.words import check_words

ENDINGS: Final = (".txt", ".md", ".markdown", ".text")
COLUMNS: Final = ("path", "name", "text")
MAX_TEXT_BYTES: Final = 32 * 1024 * 1024
"""A larger file is no text that a model could be asked about."""
_BATCH_CHARS: Final = 256 * 1024


class FolderPlace:
    """A folder by its path, with all folders in it.

    Files are taken in the order of their paths. What begins with a dot is passed over, and so is
    a link that leads out of the folder. Encodings and gzip are told as for every file; one that is
    given is that of all.
    """

    path = None
    whole = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.shown_as = str(folder)

    def identity(self) -> tuple[str, ...]:
        """The folder's full path."""
        return ("folder", str(self._folder.resolve()))

    def check(self, options: ReadOptions) -> None:
        """Words that no file knows, and a --where that is no expression."""
        check_words(options)
        if options.where is not None:
            Filter(options.where)

    def fitted(self, options: ReadOptions) -> ReadOptions:
        """The path is the id where none is chosen."""
        self.check(options)
        options = replace(options, encoding=encoding_named(options.encoding))
        return options if options.id_field else replace(options, id_field="path")

    @contextmanager
    def rows(self, options: ReadOptions) -> Iterator[Rows]:
        """A row a file: path (with /, from the folder), name (the file's own) and text."""
        root = self._folder.resolve()
        with named(self.shown_as):
            files = _files(root, root)
            first = next(files, None)
        if first is None:
            raise BadSource(f"{self.shown_as}: no file in it ends in {', '.join(ENDINGS)}")
        yield Rows(COLUMNS, _batches(root, first, files, options.encoding), "folder")


class FolderOrigin:
    """Whatever path is a folder, unless Hugging Face wrote it."""

    name = "folder"

    def claims(self, asked: Asked) -> bool:
        """A folder that is there."""
        return "://" not in asked.uri and Path(asked.uri).is_dir()

    def place(self, asked: Asked) -> FolderPlace:
        """The folder."""
        for option, value in (("--query", asked.query), ("--table", asked.table)):
            if value is not None:
                raise UsageError(f"{option} is for a database URL; {asked.uri} is a folder")
        return FolderPlace(Path(asked.uri))


ORIGIN = FolderOrigin()


def _files(folder: Path, root: Path) -> Iterator[Path]:
    """The texts in `folder` and below, sorted; links are followed within `root` only, and only
    to files: a link to a folder may lead in a circle."""
    with os.scandir(folder) as entries:
        found = sorted(
            (e for e in entries if not e.name.startswith(".")),
            key=lambda e: e.name + "/" * e.is_dir(follow_symlinks=False),
        )
    for entry in found:
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from _files(path, root)
        elif _is_text(entry.name) and entry.is_file() and _within(path, entry, root):
            yield path


def _is_text(name: str) -> bool:
    return name.lower().removesuffix(".gz").endswith(ENDINGS)


def _within(path: Path, entry: os.DirEntry[str], root: Path) -> bool:
    return not entry.is_symlink() or path.resolve().is_relative_to(root)


def _batches(
    root: Path, first: Path, rest: Iterator[Path], encoding: str | None
) -> Iterator[Batch]:
    batch: Batch = []
    held, number = 0, 0
    path: Path | None = first
    while path is not None:
        number += 1
        row = _row(number, path, path.relative_to(root).as_posix(), encoding)
        batch.append(row)
        held += len(str(row.values["text"])) if isinstance(row, Row) else 0
        if held >= _BATCH_CHARS or len(batch) >= 1000:
            yield batch
            batch, held = [], 0
        with named(str(root)):
            path = next(rest, None)
    yield batch


def _row(number: int, path: Path, key: str, encoding: str | None) -> Row | BadLine:
    """The file as a row, the `number`-th; or why it cannot be one."""
    pieces: list[bytes] = []
    size_bytes = 0
    shown = os.fsencode(key).decode("utf-8", "replace")
    try:
        with opened(path, shown, encoding) as file:
            for chunk in file.chunks():
                pieces += chunk.lines
                size_bytes += sum(map(len, chunk.lines))
                if size_bytes > MAX_TEXT_BYTES:
                    most = MAX_TEXT_BYTES // 1_000_000
                    return BadLine(number, f"{shown} is longer than {most} MB; is it a text?")
            text = b"".join(pieces).decode(file.codec, file.errors)
    except UnicodeDecodeError as error:
        return BadLine(number, f"{shown} is {wrong_text(error, error.start, encoding or UTF_8)}")
    except BadSource as error:
        return BadLine(number, str(error))
    return Row(number, {"path": shown, "name": path.name, "text": text})
