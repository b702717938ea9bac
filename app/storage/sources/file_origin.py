"""One file: CSV, JSONL, Parquet, whatever has a module `<name>_source.py` here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from app.errors import UsageError
from app.storage.sources.base import Asked, ReadOptions, Rows, Source
from app.storage.sources.encodings import encoding_named
from app.storage.sources.filtering import Filter
from app.storage.sources.opening import Opened, opened
from app.storage.sources.registry import by_name, choose
from app.storage.sources.words import check_words


class FilePlace:
    """A file by its path. Somebody's selection, as a rule: that it lacks a key says nothing."""

    whole = False

    def __init__(
        self, path: Path, shown_as: str | None = None, known_as: str | None = None
    ) -> None:
        self.path = path
        self.shown_as = shown_as or str(path)
        self._known_as = known_as

    def identity(self) -> tuple[str, ...]:
        """The file's full path, or what it is known as where it is but a copy."""
        return ("file", self._known_as or str(self.path.resolve()))

    def check(self, options: ReadOptions) -> None:
        """Formats, encodings, delimiters and expressions, and what does not go together as far as
        the file's name tells."""
        check_words(options)
        if options.where is not None:
            Filter(options.where)
        if (format_told := by_name(self.shown_as, options.format)) is not None:
            self._check_format(format_told, options)

    def fitted(self, options: ReadOptions) -> ReadOptions:
        """With Python's name for the encoding."""
        self.check(options)
        return replace(options, encoding=encoding_named(options.encoding))

    def form(self, options: ReadOptions) -> str:
        """The name of its format. BadSource: nothing tells."""
        with opened(self.path, self.shown_as, options.encoding) as file:
            return self._chosen(file, options).name

    @contextmanager
    def rows(self, options: ReadOptions) -> Iterator[Rows]:
        """The file's rows."""
        with opened(self.path, self.shown_as, options.encoding) as file:
            source = self._chosen(file, options)
            rows = source.rows(file, options)
            kind = ", ".join(filter(None, (source.name, file.encoding, rows.detail)))
            yield replace(rows, detail=kind)

    def _chosen(self, file: Opened, options: ReadOptions) -> Source:
        found = choose(self.shown_as, file.head(), options.format)
        self._check_format(found, options)
        return found

    def _check_format(self, found: Source, options: ReadOptions) -> None:
        if options.delimiter is not None and found.name != "csv":
            raise UsageError(f"--delimiter is for CSV; {self.shown_as} is {found.name}")
        if options.encoding is not None and found.name == "parquet":
            raise UsageError(f"--encoding is for text files; {self.shown_as} is {found.name}")


class FileOrigin:
    """What is nothing else is a file."""

    name = "file"

    def claims(self, asked: Asked) -> bool:  # noqa: ARG002
        """Whatever nobody else claims."""
        return True

    def place(self, asked: Asked) -> FilePlace:
        """The file at the path `asked.uri`."""
        for option, value in (("--query", asked.query), ("--table", asked.table)):
            if value is not None:
                raise UsageError(f"{option} is for a database URL; {asked.uri} is a file")
        return FilePlace(Path(asked.uri))


ORIGIN = FileOrigin()
