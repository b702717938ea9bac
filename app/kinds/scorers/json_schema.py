"""json_schema: the answer is JSON that fits a schema, one for all items or each item's expected."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any

from pydantic import Field, field_validator

from app.kinds.scorers.base import NO_EXPECTED, Case, Options, Score, unscored
from app.kinds.scorers.fences import unfenced

BAD_SCHEMA = "bad_schema"
_MOST_DIGITS = 4_000


class JsonSchemaOptions(Options):
    """Schemas are of JSON Schema 2020-12 unless they say otherwise. None is ever fetched."""

    schema_: dict[str, Any] | None = Field(default=None, alias="schema")
    """The schema; default: what the item expects."""
    fenced: bool = True
    """Whether the JSON may stand between ``` marks."""

    @field_validator("schema_")
    @classmethod
    def _is_a_schema(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is not None and (fault := _fault(json.dumps(schema))) is not None:
            raise ValueError(f"not a JSON schema: {fault}")
        return schema


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """The scorer."""

    name: str = "json_schema"
    rate: bool = True
    needs: tuple[str, ...] = ("jsonschema",)
    options: type[Options] = JsonSchemaOptions

    def score(self, case: Case, options: JsonSchemaOptions) -> Score:
        """1 where the whole answer is JSON and fits; the first fault is noted by its place."""
        schema = _schema(case, options)
        if schema is None:
            return unscored(NO_EXPECTED)
        if _fault(schema) is not None:
            return unscored(BAD_SCHEMA)
        text = unfenced(case.answer) if options.fenced else case.answer
        try:
            value = json.loads(text, parse_constant=_refused, parse_int=_whole)
        except (ValueError, RecursionError):
            return Score(0.0, notes={"fault": "not JSON"})
        fault = next(iter(_validator(schema).iter_errors(value)), None)
        if fault is None:
            return Score(1.0)
        return Score(0.0, notes={"fault": f"{fault.validator} at {fault.json_path}"})


def _refused(word: str) -> Any:
    """NaN and Infinity are of Python, and no JSON (RFC 8259, section 6)."""
    raise ValueError(f"{word} is not JSON")


def _whole(digits: str) -> int | float:
    """An integer, however long; past what Python reads it is only very large."""
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def _schema(case: Case, options: JsonSchemaOptions) -> str | None:
    if options.schema_ is not None:
        return json.dumps(options.schema_)
    if isinstance(case.expected, str):
        return case.expected
    return None if case.expected is None else json.dumps(case.expected)


@functools.lru_cache(maxsize=256)
def _fault(schema: str) -> str | None:
    """What is wrong with a schema, None: nothing."""
    from jsonschema.exceptions import SchemaError

    try:
        _validator(schema).check_schema(json.loads(schema))
    except SchemaError as error:
        return f"{error.validator} at {error.json_path}"
    except (ValueError, AttributeError) as error:
        return type(error).__name__
    return None


@functools.lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    loaded = json.loads(schema)
    # A registry of our own: jsonschema's would fetch what a $ref names.
    return validator_for(loaded, Draft202012Validator)(loaded, registry=Registry())


SCORER = JsonSchema()
