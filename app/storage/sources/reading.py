"""Reading: a file as a stream of records, strict or lenient, with a report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.errors import BadSource
from app.storage.sources.base import BadLine, Batch, ReadOptions, Record
from app.storage.sources.columns import check_columns, members
from app.storage.sources.duplicates import SeenKeys
from app.storage.sources.opening import Opened, opened
from app.storage.sources.picking import Picker
from app.storage.sources.registry import choose
from app.storage.sources.spooling import file_hash

NAMED_LINES: Final = 20
"""So many bad lines are named one by one."""
MOST_COUNTED: Final = 10_000
"""A strict reading gives up counting here: the file is something else than was thought."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a reading has seen so far.

    `records` were given out, `bad` are none. Among all that was read, given out or not, `blank`
    have a text with nothing to see in it, and `cleaned` held what Postgres refuses.
    `lines` has a sentence for each of the first bad ones.
    """

    records: int = 0
    blank: int = 0
    cleaned: int = 0
    bad: int = 0
    lines: tuple[str, ...] = ()


def read(path: Path, options: ReadOptions, shown_as: str | None = None) -> Reading:
    """The records of `path`. Standard input is spooled first: see `spooling.spooled`.

    `shown_as` names the file in messages (None: the path). Nothing is opened before iteration.
    """
    return Reading(path, options, shown_as or str(path))


class Reading:
    """An iterable of records that keeps a report while it is iterated. Each iteration starts anew.

    Strict: from the first bad line on no record is given out, the rest is only counted, and
    BadSource is raised at the end with the first sentences. Lenient: bad lines are skipped.
    Memory stays flat: 16 bytes a record for the keys, and some hundred kilobytes of file.
    A missing or empty file, an unknown format or an unknown column is a BadSource either way.
    """

    def __init__(self, path: Path, options: ReadOptions, name: str) -> None:
        self._path = path
        self._options = options
        self._name = name
        self._pass = _Pass(options, name)

    def __iter__(self) -> Iterator[Record]:
        self._pass = _Pass(self._options, self._name)
        with opened(self._path, self._name) as file:
            yield from self._pass.records_of(file)

    @property
    def report(self) -> Report:
        """What was seen so far; complete once the iteration has ended."""
        return self._pass.report

    def describe(self) -> str:
        """The file's name and what it turned out to be: known once the iteration has begun."""
        kind = self._pass.kind
        return f"{self._name} ({kind})" if kind else self._name

    def content_hash(self) -> bytes:
        """16 bytes for the file as it stands on disk, whatever is picked from it."""
        return file_hash(self._path)


class _Pass:
    """One going through a file."""

    def __init__(self, options: ReadOptions, name: str) -> None:
        self._options = options
        self._name = name
        self._picker = Picker(options)
        self._seen = SeenKeys()
        self._given = 0
        self._bad = 0
        self._lines: list[str] = []
        self.kind = ""

    @property
    def report(self) -> Report:
        picker = self._picker
        return Report(self._given, picker.blank, picker.cleaned, self._bad, tuple(self._lines))

    def records_of(self, file: Opened) -> Iterator[Record]:
        source = choose(self._name, file.head(), self._options.format)
        rows = source.rows(file, self._options)
        self.kind = ", ".join(filter(None, (source.name, file.encoding, rows.detail)))
        if rows.columns:
            check_columns(self._name, self._options.wanted, rows.columns)
        number = 0
        for batch in rows.batches:
            if number == 0 and rows.columns is None:
                # Where each record has its own members, those of the first batch speak for all.
                check_columns(self._name, self._options.wanted, members(batch))
            records, bad = self._picked(batch, number)
            number += len(batch)
            self._note(bad)
            if not self._bad or self._options.lenient:
                self._given += len(records)
                yield from records
        if not number and not rows.columns:
            raise BadSource(f"{self._name} is empty")
        if self._bad and not self._options.lenient:
            raise self._refusal(f"{self._bad:,} of {number:,} records cannot be read")

    def _picked(self, batch: Batch, number: int) -> tuple[list[Record], list[BadLine]]:
        """The good and the bad of `batch`, before which came `number` records; both by line."""
        records: list[Record] = []
        bad: list[BadLine] = []
        pick = self._picker.record
        for row in batch:
            number += 1
            found = row if isinstance(row, BadLine) else pick(row, number)
            if isinstance(found, BadLine):
                bad.append(found)
            else:
                records.append(found)
        if self._options.id_field is None:
            return records, bad
        doubled = self._seen.add([r.key for r in records], [r.line for r in records])
        if not doubled:
            return records, bad
        bad += [_doubled(records[index], line) for index, line in doubled.items()]
        return [r for index, r in enumerate(records) if index not in doubled], sorted(bad)

    def _note(self, bad: list[BadLine]) -> None:
        self._bad += len(bad)
        self._lines += [line.sentence for line in bad[: NAMED_LINES - len(self._lines)]]
        if self._bad >= MOST_COUNTED and not self._options.lenient:
            raise self._refusal(f"{MOST_COUNTED:,} records or more cannot be read")

    def _refusal(self, what: str) -> BadSource:
        message = f"{self._name}: {what}; put them right, or skip them with --lenient"
        return BadSource(message, self._lines, self._bad)


def _doubled(record: Record, line: int) -> BadLine:
    key = record.key if len(record.key) <= 80 else record.key[:79] + "…"
    return BadLine(record.line, f"the id {key!r} is on line {line} too")
