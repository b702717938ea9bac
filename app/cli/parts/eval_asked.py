"""What `giveway eval run` was asked for, as the template of a job."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.cli.parts.texts import text_of
from app.domain.jobs import NO_MODEL
from app.errors import UsageError

if TYPE_CHECKING:
    from app.services.pools import Pools
    from app.services.templates import JobTemplate

_TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of the command, as they were given."""

    uri: str
    query: str | None
    table: str | None
    keyset: bool
    where: str | None
    limit: int | None
    input_field: str
    expected_field: str | None
    output_field: str | None
    id_field: str | None
    prompt: str | None
    model: str | None
    system: str | None
    max_tokens: int | None
    temperature: float | None
    repeats: int | None
    scorers: tuple[str, ...]
    options: tuple[str, ...]
    format: str | None
    delimiter: str | None
    encoding: str | None
    lenient: bool
    name: str | None
    priority: int
    weight: float
    max_in_flight: int | None
    chunk_items: int | None
    tenant: str | None
    deadline: str | None
    window: str | None
    after: tuple[str, ...]
    budget: float | None


def template_of(asked: Asked, pools: Pools) -> JobTemplate:
    """The job. UsageError, BadParams, UnknownName: what was asked cannot be."""
    from app.cli.parts.models import chat_model
    from app.kinds.base import checked, fields_of
    from app.kinds.evaluate import EXPECTED
    from app.kinds.registry import kind
    from app.services.templates import checked_template

    _check(asked)
    given = asked.output_field is not None
    params: dict[str, Any] = {
        "model": NO_MODEL if given else chat_model(pools, asked.model),
        "prompt": asked.prompt and text_of(asked.prompt),
        "system": asked.system and text_of(asked.system),
        "max_tokens": asked.max_tokens,
        "temperature": asked.temperature,
        "repeats": asked.repeats,
        "scorers": asked.scorers,
        "options": scorer_options(asked.options),
    }
    params = {name: value for name, value in params.items() if value is not None}
    evaluate = kind("evaluate")
    if fields_of(evaluate, checked(evaluate, params))[EXPECTED] and asked.expected_field is None:
        raise UsageError(
            "an answer is compared with what it should be: name the field that says it with "
            "--expected-field"
        )
    job: dict[str, Any] = {
        "kind": "evaluate",
        "params": params,
        "source": _source(asked),
        "name": asked.name,
        "priority": asked.priority,
        "weight": asked.weight,
        "tenant": asked.tenant,
        "max_in_flight": asked.max_in_flight,
        "chunk_items": asked.chunk_items,
        "deadline": asked.deadline,
        "window": asked.window,
        "after": asked.after,
        "budget": asked.budget,
    }
    return checked_template({name: value for name, value in job.items() if value is not None})


def _check(asked: Asked) -> None:
    from app.kinds.scorers.registry import scorers

    if not asked.scorers:
        raise UsageError(f"name a --scorer: {', '.join(sorted(scorers()))}")
    if asked.output_field is None:
        return
    told = {
        "--model": asked.model,
        "--prompt": asked.prompt,
        "--system": asked.system,
        "--max-tokens": asked.max_tokens,
        "--temperature": asked.temperature,
        "--repeats": asked.repeats,
    }
    stray = [flag for flag, value in told.items() if value is not None]
    if stray:
        raise UsageError(
            f"--output-field says that the answers are there already; leave out {', '.join(stray)}"
        )


def _source(asked: Asked) -> dict[str, Any]:
    from app.kinds.evaluate import EXPECTED, OUTPUT
    from app.kinds.templating import fields_of

    named = set() if asked.prompt is None else set(fields_of(asked.prompt))
    fields = {name: name for name in sorted(named - {_TEXT})}
    if asked.expected_field is not None:
        fields[EXPECTED] = asked.expected_field
    if asked.output_field is not None:
        fields[OUTPUT] = asked.output_field
    return {
        "uri": asked.uri,
        "query": asked.query,
        "table": asked.table,
        "keyset": asked.keyset,
        "where": asked.where,
        "limit": asked.limit,
        "id_field": asked.id_field,
        "text_field": asked.input_field,
        "fields": fields,
        "format": asked.format,
        "delimiter": asked.delimiter,
        "encoding": asked.encoding,
        "lenient": asked.lenient,
    }


def scorer_options(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Options by scorer from `judge.model=M`. UsageError: another shape, or no such file."""
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, _, value = text.partition("=")
        scorer, _, field = name.partition(".")
        if not (scorer and field and value):
            raise UsageError(
                f"--option wants SCORER.OPTION=VALUE, such as judge.model=M; not {text!r}"
            )
        found.setdefault(scorer, {})[field] = _value(value)
    return found


def _value(text: str) -> Any:
    text = text_of(text)
    try:
        return json.loads(text)
    except ValueError:
        return text


def least(texts: Sequence[str], metrics: Collection[str]) -> dict[str, float]:
    """Lowest means allowed from `numeric=0.5`. UsageError: another shape, or no such metric."""
    found: dict[str, float] = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            raise UsageError(
                f"--fail-under wants METRIC=VALUE, such as numeric=0.5; not {text!r}"
            ) from None
        if not 0 <= found[name] <= 1:  # NaN is not either, and no mean would be under it.
            raise UsageError(f"--fail-under {text}: metrics go from 0 to 1, such as 0.8")
        if name not in metrics:
            raise UsageError(
                f"--fail-under names {name!r}; the metrics here: {', '.join(sorted(metrics))}"
            )
    return found


def margins(texts: Sequence[str]) -> dict[str | None, float]:
    """Margins by metric from `numeric=0.02`; from `0.02` alone, under None, that of all others.
    UsageError: another shape."""
    found: dict[str | None, float] = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        try:
            margin = float(value)
        except ValueError:
            margin = math.nan
        if not 0 < margin < 1:
            raise UsageError(
                f"--margin wants a share of 1, such as 0.02 or numeric=0.02 for two points; "
                f"not {text!r}"
            )
        found[name or None] = margin
    return found
