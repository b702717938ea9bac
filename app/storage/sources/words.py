"""Words: format, encoding and delimiter by the names that people give them, judged before any file
is there."""

from __future__ import annotations

from app.errors import BadSource, UsageError
from app.storage.sources.base import ReadOptions
from app.storage.sources.encodings import encoding_named
from app.storage.sources.registry import source_named


def check_words(options: ReadOptions) -> None:
    """UnknownName: no such format; UsageError: no such encoding; BadSource: no such delimiter."""
    if options.format is not None:
        source_named(options.format)
    encoding_named(options.encoding)
    delimiter_named(options.delimiter)


def delimiter_named(name: str | None) -> str | None:
    """The delimiter that was asked for; `tab` and `\\t` are what people can type for a tab.

    None: none was given. BadSource: no such.
    """
    if name is None:
        return None
    delimiter = "\t" if name in ("tab", "\\t") else name
    if len(delimiter) != 1 or delimiter in '"\r\n ':
        raise BadSource(f"no delimiter {delimiter!r}; one character, such as , or ; or tab")
    return delimiter


def refuse_words_of_files(options: ReadOptions, name: str, sort: str) -> None:
    """UsageError: a word that only files have was said of the place `name`, which is a `sort`."""
    for option, value in (
        ("--format", options.format),
        ("--delimiter", options.delimiter),
        ("--encoding", options.encoding),
    ):
        if value is not None:
            raise UsageError(f"{option} is for files; {name} is a {sort}")
