"""Reading: a file as a stream of records, strict or lenient, with a report of what was no record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.errors import BadSource
from app.storage.sources.base import BadLine, Batch, ReadOptions, Record, Rows
from app.storage.sources.columns import missing_column
from app.storage.sources.duplicates import SeenKeys
from app.storage.sources.opening import Opened, opened
from app.storage.sources.picking import Picker
from app.storage.sources.registry import choose

NAMED_LINES: Final = 20
"""So many bad lines are named one by one."""
MOST_COUNTED: Final = 10_000
"""A strict reading gives up counting here: the file is something else than was thought."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a reading has seen so far.

    `records` are the good ones given out, `blank` those of them without any visible text, `cleaned`
    those that held what Postgres refuses. `lines` has a sentence for each of the first bad ones.
    """

    records: int
    blank: int
    cleaned: int
    bad: int
    lines: tuple[str, ...]


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
        self._picker = Picker(options)
        self._records = 0
        self._bad = 0
        self._lines: list[str] = []
        self._kind = ""

    @property
    def report(self) -> Report:
        """What was seen so far; complete once the iteration has ended."""
        picker = self._picker
        return Report(self._records, picker.blank, picker.cleaned, self._bad, tuple(self._lines))

    def describe(self) -> str:
        """What the file turned out to be, for people: known once the iteration has begun."""
        return f"{self._name} ({self._kind})" if self._kind else self._name

    def __iter__(self) -> Iterator[Record]:
        self.__init__(self._path, self._options, self._name)  # type: ignore[misc]
        with opened(self._path, self._name) as file:
            yield from self._stream(file)

    def _stream(self, file: Opened) -> Iterator[Record]:
        source = choose(self._name, file.head(), self._options.format)
        rows = source.rows(file, self._options)
        self._kind = ", ".join(filter(None, (source.name, file.encoding, rows.detail)))
        if rows.columns:
            self._check(rows.columns)
        seen, number, first_lines = SeenKeys(), 0, True
        for batch in rows.batches:
            if first_lines and batch and rows.columns is None:
                self._check(_members(batch))
            first_lines = first_lines and not batch
            records, bad = self._picked(batch, number, seen)
            number += len(batch)
            self._note(bad)
            if not self._bad or self._options.lenient:
                self._records += len(records)
                yield from records
        if not number and not rows.columns:
            raise BadSource(f"{self._name} is empty")
        if self._bad and not self._options.lenient:
            raise self._refusal(f"{self._bad:,}", number)

    def _picked(
        self, batch: Batch, number: int, seen: SeenKeys
    ) -> tuple[list[Record], list[BadLine]]:
        """The good and the bad of `batch`, before which came `number` records; both by line."""
        records: list[Record] = []
        bad: list[BadLine] = []
        pick = self._picker.record
        for row in batch:
            number += 1
            found = row if type(row) is BadLine else pick(row, number)  # type: ignore[arg-type]
            if type(found) is Record:
                records.append(found)
            else:
                bad.append(found)  # type: ignore[arg-type]
        if self._options.id_field is None:
            return records, bad
        doubled = seen.add([r.key for r in records], [r.line for r in records])
        if not doubled:
            return records, bad
        for index, line in doubled.items():
            bad.append(_doubled(records[index], line, self._options.id_field))
        return [r for i, r in enumerate(records) if i not in doubled], sorted(bad)

    def _note(self, bad: list[BadLine]) -> None:
        self._bad += len(bad)
        self._lines += [line.sentence for line in bad[: NAMED_LINES - len(self._lines)]]
        if self._bad >= MOST_COUNTED and not self._options.lenient:
            raise self._refusal(f"{MOST_COUNTED:,} or more", None)

    def _refusal(self, count: str, number: int | None) -> BadSource:
        of = "" if number is None else f" of {number:,}"
        s = "" if self._bad == 1 else "s"
        return BadSource(
            f"{self._name}: {count} bad record{s}{of}; --lenient skips them",
            self._lines,
            self._bad,
        )
