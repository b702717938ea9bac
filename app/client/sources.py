"""Where items come from, as Python says it: a path, a URL with a query, or dicts."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from dataclasses import fields as fields_of_class
from pathlib import Path
from typing import Any

from app.client.frames import is_frame, rows_of
from app.errors import BadSource
from app.services.templates import SourceTemplate

Frame = Any
"""A DataFrame of pandas or polars: neither has to be installed."""
Items = Iterable[Mapping[str, Any]] | Frame


@dataclass(frozen=True, slots=True)
class Source:
    """A source and how it is read; `uri` and the other words are those of `giveway submit`. It may
    be a data frame of pandas or polars too.

    `fields`: further fields of an item, column by name. `id_field` None: items are numbered.
    """

    uri: str | Path | Frame
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
        given = {one.name: getattr(self, one.name) for one in fields_of_class(self)}
        return SourceTemplate(**given | {"uri": str(self.uri), "fields": dict(self.fields)})


def named_frame(source: Any) -> Any:
    """A data frame as a source whose fields can be named; anything else as it is."""
    if not is_frame(source):
        return source
    return Source(source, id_field="id" if "id" in list(source.columns) else None)


@contextmanager
def on_disk(
    source: Source | str | Path | Items, folder: Path | None, fields: Collection[str] = ()
) -> Iterator[SourceTemplate]:
    """The source as a template; dicts and data frames are written to a file that is there as long
    as the context.

    Of both, `id` names an item where the first has one, `text` is its text, and those of `fields`
    that the first has are its further fields. BadSource: an item that JSON cannot hold.
    """
    match source:
        case Source() if is_frame(source.uri):
            with _on_disk(rows_of(source.uri, source.text_field), folder) as (name, _):
                yield replace(source, uri=name, format="jsonl").template()
        case Source():
            yield source.template()
        case str() | Path():
            yield Source(source).template()
        case _:
            rows = rows_of(source) if is_frame(source) else source
            with _on_disk(rows, folder) as (name, there):
                yield Source(
                    name,
                    format="jsonl",
                    id_field="id" if "id" in there else None,
                    fields={name: name for name in fields if name in there},
                ).template()


@contextmanager
def _on_disk(
    items: Iterable[Mapping[str, Any]], folder: Path | None
) -> Iterator[tuple[str, frozenset[str]]]:
    """A file with a line an item, and the names that the first has."""
    with tempfile.NamedTemporaryFile("wb", prefix="items-", suffix=".jsonl", dir=folder) as file:
        there = _written(items, file)
        file.flush()
        yield file.name, there


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
