"""What is asked for from Python, as the template of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.client.sources import Items, Source, on_disk
from app.kinds.base import checked, fields_of
from app.kinds.evaluate import EXPECTED, OUTPUT
from app.kinds.registry import kind as kind_named
from app.services.templates import JobTemplate, asked_template


@contextmanager
def template_of(
    kind: str,
    source: Source | str | Path | Items,
    params: Mapping[str, Any],
    options: Mapping[str, Any] | None,
    folder: Path | None,
) -> Iterator[JobTemplate]:
    """The template, as long as the context is open; `folder` is where dicts are written.

    UsageError and its leaves: no such job can be.
    """
    one = kind_named(kind)
    fields = fields_of(one, checked(one, params))
    with on_disk(source, folder, fields) as read:
        yield asked_template(
            {"kind": kind, "params": dict(params), "source": read, **(options or {})}
        )


def with_columns(
    source: Source | str | Path,
    params: Mapping[str, Any],
    input_field: str,
    expected_field: str | None,
    output_field: str | None,
) -> Source:
    """`source` with the columns that an evaluation with `params` looks at."""
    evaluate = kind_named("evaluate")
    said = {EXPECTED: expected_field, OUTPUT: output_field}
    asked = fields_of(evaluate, checked(evaluate, params))
    return replace(
        source if isinstance(source, Source) else Source(source),
        text_field=input_field,
        fields={name: said.get(name) or name for name in asked if asked[name] or said.get(name)},
    )
