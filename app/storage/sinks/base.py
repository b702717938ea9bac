"""What a sink is: rows written to a file, in one format. A format is one module `<name>_sink.py`
in this folder with a `SINK`; `registry` finds it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from app.domain.flattening import Kind

Row = Mapping[str, Any]
"""Values by column: text, numbers, None, arrays of numbers, bytes (written as hex)."""


Kinds = Mapping[str, Kind]
"""Kinds of columns, by name, where they are known for all rows."""
NO_KINDS: Kinds = MappingProxyType({})


class Sink(Protocol):
    """A format that rows are written in. Holds no state; one object serves every file."""

    @property
    def name(self) -> str:
        """What people write after --format."""
        ...

    @property
    def endings(self) -> tuple[str, ...]:
        """File endings with the dot, in small letters."""
        ...

    @property
    def columnar(self) -> bool:
        """Whether what is nested becomes columns of its own."""
        ...

    def blocks(
        self, rows: Iterable[Row], columns: Sequence[str], kinds: Kinds = NO_KINDS
    ) -> Iterator[tuple[bytes, int]]:
        """The file piece by piece, each with the number of rows in it; memory stays flat."""
        ...
