"""Reading: a place as a stream of records, strict or lenient, with a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from app.domain.cleaning import JSON
from app.errors import BadSource
from app.storage.sources.base import BadLine, Batch, Place, ReadOptions, Record, Rows
from app.storage.sources.columns import check_columns, members
from app.storage.sources.duplicates import SeenKeys
from app.storage.sources.file_origin import FilePlace
from app.storage.sources.filtering import Filter
from app.storage.sources.picking import Picker

Judge: TypeAlias = Callable[[Mapping[str, JSON]], str | None]

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
    """The records of the file `path`. Standard input is spooled first: see `spooling.spooled`.

    `shown_as` names the file in messages (None: the path). Nothing is opened before iteration.
    """
    return Reading(FilePlace(path, shown_as), options)


class Reading:
    """An iterable of records that keeps a report while it is iterated. Each iteration starts anew.

    Strict: from the first bad line on no record is given out, the rest is only counted, and
    BadSource is raised at the end with the first sentences. Lenient: bad lines are skipped.
    Memory stays flat: 16 bytes a record for the keys, and some hundred kilobytes of rows.
    A missing or empty file, an unknown format or an unknown column is a BadSource either way.
    """

    def __init__(self, place: Place, options: ReadOptions) -> None:
        self._place = place
        self._options = options
        self._pass = _Pass(options, place.shown_as)
        self.judge: Judge | None = None
        """Says of a payload why it cannot be an item; such a record is then a bad line."""

    def __iter__(self) -> Iterator[Record]:
        options = self._place.fitted(self._options)
        self._pass = _Pass(options, self._place.shown_as, self.judge)
        with self._place.rows(options) as rows:
            yield from self._pass.records_of(rows)

    @property
    def report(self) -> Report:
        """What was seen so far; complete once the iteration has ended."""
        return self._pass.report

    def describe(self) -> str:
        """The place's name and what it turned out to be: known once the iteration has begun."""
        kind = self._pass.kind
        name = self._place.shown_as
        return f"{name} ({kind})" if kind else name


class _Pass:
    """One going through a place."""

    def __init__(self, options: ReadOptions, name: str, judge: Judge | None = None) -> None:
        self._options = options
        self._judge = judge
        self._name = name
        self._picker = Picker(options)
        self._filter: Filter | None = None
        self._seen = SeenKeys()
        self._given = 0
        self._bad = 0
        self._lines: list[str] = []
        self.kind = ""

    @property
    def report(self) -> Report:
        picker = self._picker
        return Report(self._given, picker.blank, picker.cleaned, self._bad, tuple(self._lines))

    def records_of(self, rows: Rows) -> Iterator[Record]:
        self.kind = rows.detail
        if self._options.where is not None and not rows.chosen:
            self._filter = Filter(self._options.where)
        wanted = self._options.wanted + (() if self._filter is None else self._filter.names)
        if rows.columns:
            check_columns(self._name, wanted, rows.columns)
        number = 0
        for batch in rows.batches:
            if number == 0 and rows.columns is None:
                # Where each record has its own members, those of the first batch speak for all.
                check_columns(self._name, wanted, members(batch))
            records, bad = self._within_limit(*self._picked(batch, number))
            number += len(batch)
            self._note(bad)
            if not self._bad or self._options.lenient:
                self._given += len(records)
                yield from records
            if self._given == self._options.limit:
                break
        if not number and not rows.columns:
            raise BadSource(f"{self._name} is empty")
        if self._bad and not self._options.lenient:
            raise self._refusal(f"{self._bad:,} of {number:,} records cannot be read")

    def _picked(self, batch: Batch, number: int) -> tuple[list[Record], list[BadLine]]:
        """The good and the bad of `batch`, before which came `number` records; both by line."""
        if self._filter is None:
            records, bad = self._picker.records(batch, number)
        else:
            records, bad = self._filtered(self._filter, batch, number)
        if self._judge is not None:
            refused = [
                BadLine(record.line, why)
                for record in records
                if (why := self._judge(record.payload)) is not None
            ]
            if refused:
                lines = {one.line for one in refused}
                records = [record for record in records if record.line not in lines]
                bad = sorted(bad + refused)
        if self._options.id_field is None:
            return records, bad
        doubled = self._seen.add([r.key for r in records], [r.line for r in records])
        if not doubled:
            return records, bad
        bad += [_doubled(records[index], line) for index, line in doubled.items()]
        return [r for index, r in enumerate(records) if index not in doubled], sorted(bad)

    def _filtered(
        self, chosen: Filter, batch: Batch, number: int
    ) -> tuple[list[Record], list[BadLine]]:
        records: list[Record] = []
        bad: list[BadLine] = []
        for at, row in enumerate(batch, start=number):
            refused = chosen.refuses(row)
            if refused is not None:
                bad += refused
                continue
            found, wrong = self._picker.records([row], at)
            records += found
            bad += wrong
        return records, bad

    def _within_limit(
        self, records: list[Record], bad: list[BadLine]
    ) -> tuple[list[Record], list[BadLine]]:
        """Both up to the record that reaches the limit; what comes after it was not asked for."""
        limit = self._options.limit
        if limit is None or self._given + len(records) < limit:
            return records, bad
        records = records[: limit - self._given]
        return records, [line for line in bad if records and line.line < records[-1].line]

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
