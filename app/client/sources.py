"""Where items come from, as Python says it: a path, a URL with a query, or dicts."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from app.errors import BadSource
from app.services.templates import SourceTemplate

Items = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Source:
    """A source and how it is read; `uri` and the other words are those of `giveway submit`.

    `fields`: further fields of an item, column by name. `id_field` None: items are numbered.
    """

    uri: str | Path
    query: str | None = None
    table: str | None = None
    keyset: bool = False
    id_field: str | None = None
    text_field: str | None = "text"
    fields: Mapping[str, str] = field(default_factory=dict)
    format: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    lenient: bool = False
    limit: int | None = None
    where: str | None = None

    def template(self) -> SourceTemplate:
        """The same as a template."""
        given = asdict(self) | {"uri": str(self.uri), "fields": dict(self.fields)}
        return SourceTemplate(**given)


@contextmanager
def on_disk(
    source: Source | str | Path | Items, folder: Path | None, fields: Collection[str] = ()
) -> Iterator[SourceTemplate]:
    """The source as a template; dicts are written to a file that is there as long as the context.

    Of dicts, `id` names an item where the first has one, `text` is its text, and those of `fields`
    that the first has are its further fields. BadSource: an item that JSON cannot hold.
    """
    match source:
        case Source():
            yield source.template()
        case str() | Path():
            yield Source(source).template()
        case _:
            with tempfile.NamedTemporaryFile(
                "wb", prefix="items-", suffix=".jsonl", dir=folder
            ) as file:
                there = _written(source, file)
                file.flush()
                yield Source(
                    file.name,
                    format="jsonl",
                    id_field="id" if "id" in there else None,
                    fields={name: name for name in fields if name in there},
                ).template()


def _written(items: Items, file: Any) -> frozenset[str]:
    """Write a line an item; the names that the first has."""
    there: frozenset[str] = frozenset()
    for number, item in enumerate(items, start=1):
        there = frozenset(item) if number == 1 else there
        try:
            # All ASCII: a lone surrogate goes through, to be cleaned and flagged by the reader.
            line = json.dumps(dict(item), ensure_ascii=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise BadSource(f"item {number} is not JSON: {error}") from None
        file.write(line.encode("ascii") + b"\n")
    return there
