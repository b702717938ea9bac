"""What a source is: records read in a stream, and the lines that are none, with reasons.

A format is one module `<name>_source.py` in this folder with a `SOURCE`; `registry` finds it.
A source only turns bytes into rows. Choosing fields, cleaning, duplicates, strict and lenient are
the same for every format, and live in `picking`, `duplicates` and `reading`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from app.domain.cleaning import JSON
from app.storage.sources.opening import Opened


class Record(NamedTuple):
    """One item to be. A tuple, because a job may have millions.

    `line` is where it begins in the file (from 1), `key` names it within the job.
    """

    line: int
    key: str
    payload: dict[str, JSON]


class Row(NamedTuple):
    """One record as the file has it: every column or member by name."""

    line: int
    values: dict[str, JSON]


class BadLine(NamedTuple):
    """A record that cannot be an item, the line where it begins, and why."""

    line: int
    reason: str

    @property
    def sentence(self) -> str:
        return f"line {self.line}: {self.reason}"


Batch: TypeAlias = list[Row | BadLine]
"""A run of consecutive records: some hundred kilobytes of file, or one record that is larger."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Which fields become what, and how strictly the file is read.

    `id_field` gives the key of each record; None: its number among the records, from 1.
    `text_field` must hold text and becomes payload["text"]. `fields` maps payload names to columns
    whose values are taken as they are. With neither, the payload is the whole record.
    `delimiter` is for CSV; None: found from the header. `format` is a source's name; None: told
    from the file's ending, or from its beginning. `lenient` skips bad lines and counts them.
    """

    id_field: str | None = None
    text_field: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    delimiter: str | None = None
    format: str | None = None
    lenient: bool = False

    @property
    def wanted(self) -> tuple[str, ...]:
        """The columns that must be there, each once, in the order of the options."""
        named = (self.id_field, self.text_field, *self.fields.values())
        return tuple(dict.fromkeys(name for name in named if name is not None))


@dataclass(frozen=True, slots=True)
class Rows:
    """An opened file as rows. `columns` is None where each record has its own.

    `detail` says what was found out about the file beyond its format, such as the delimiter.
    """

    columns: tuple[str, ...] | None
    batches: Iterator[Batch]
    detail: str = ""


class Source(Protocol):
    """A format that files come in. Holds no state; one object serves every file."""

    @property
    def name(self) -> str:
        """What people write after --format."""

    @property
    def endings(self) -> tuple[str, ...]:
        """File endings with the dot, in small letters."""

    def recognises(self, head: bytes) -> bool:
        """True where a file that begins with `head` (UTF-8, no BOM) is surely of this format."""

    def rows(self, opened: Opened, options: ReadOptions) -> Rows:
        """The rows of `opened`, lazily. A file that has no structure at all is a BadSource."""
