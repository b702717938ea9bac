"""What a source is: records read in a stream, and the lines that are none, with reasons.

A format of files is one module `<name>_source.py` in this folder with a `SOURCE`; a place that
rows come from (a file, a folder, a query) is one module `<name>_origin.py` with an `ORIGIN`. The
registries find them. Both only give rows. Choosing fields and rows, cleaning, duplicates, strict
and lenient are the same for all, and live in `picking`, `filtering`, `duplicates`, `reading`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
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


class Unreadable(str):
    """Instead of a value that is there and cannot be read: why, as it follows "column is …"."""

    __slots__ = ()


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
    `delimiter` is for CSV; None: found from the header. `encoding` is that of a text file; None:
    told from its byte order mark, else UTF-8. `format` is a source's name; None: told
    from the file's ending, or from its beginning. `lenient` skips bad lines and counts them.
    `where` chooses rows: SQL for a query, else an expression over the fields. `limit` ends the
    reading after so many records.
    """

    id_field: str | None = None
    text_field: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    delimiter: str | None = None
    encoding: str | None = None
    format: str | None = None
    lenient: bool = False
    where: str | None = None
    limit: int | None = None

    @property
    def wanted(self) -> tuple[str, ...]:
        """The columns that must be there, each once, in the order of the options."""
        named = (self.id_field, self.text_field, *self.fields.values())
        return tuple(dict.fromkeys(name for name in named if name is not None))

    @property
    def takes_all(self) -> bool:
        """Whether a payload is the whole record."""
        return self.text_field is None and not self.fields


@dataclass(frozen=True, slots=True)
class Rows:
    """An opened source as rows. `columns` is None where each record has its own.

    `detail` says what was found out about it beyond its format, such as the delimiter. `chosen`:
    the rows are already those that `where` asks for.
    """

    columns: tuple[str, ...] | None
    batches: Iterator[Batch]
    detail: str = ""
    chosen: bool = False


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


@dataclass(frozen=True, slots=True)
class Asked:
    """Where rows are to come from, as a person says it.

    `uri`: a file, a folder, `hf:dataset`, or a database URL; `query` or `table` say what of a
    database. `keyset`: by pages in the order of the id, each a short transaction of its own.
    """

    uri: str
    query: str | None = None
    table: str | None = None
    keyset: bool = False


class Place(Protocol):
    """One place that rows come from: a file, a folder, a query."""

    @property
    def shown_as(self) -> str:
        """What messages call it; holds no password."""

    @property
    def path(self) -> Path | None:
        """The one file whose bytes are all of it; None: it is read to be known."""

    @property
    def whole(self) -> bool:
        """True where it is known to give all there is: what it gives no more is gone."""

    def identity(self) -> tuple[str, ...]:
        """What makes it the same place next time, whatever it then gives. Holds no password."""

    def check(self, options: ReadOptions) -> None:
        """UsageError and its leaves: something was asked that it cannot do, whatever is there when
        it is read. Nothing is opened."""

    def fitted(self, options: ReadOptions) -> ReadOptions:
        """`options` with what the place itself knows, such as the column that is the id.

        BadSource or UsageError: something was asked that it cannot do; `check` is asked first.
        """

    def rows(self, options: ReadOptions) -> AbstractContextManager[Rows]:
        """Its rows, lazily, for as long as the context is open. BadSource: there are none to be."""


class Origin(Protocol):
    """A sort of places."""

    @property
    def name(self) -> str:
        """The word for it."""

    def claims(self, asked: Asked) -> bool:
        """Whether `asked` is one of its places."""

    def place(self, asked: Asked) -> Place:
        """The place; nothing is opened yet. UsageError: `asked` does not make sense."""
