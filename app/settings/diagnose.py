"""Turning what is wrong with settings into sentences with file, line and right spelling.

No sentence shows what a secret, an address or an unknown key was set to.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from app.settings.model import Settings
from app.settings.origins import Origins
from app.settings.places import KeyPath
from app.settings.schema import (
    PREFIX,
    SEPARATOR,
    is_secret,
    is_table,
    keys_at,
    table_at,
    variables,
)

NOT_SETTINGS = frozenset({"GIVEWAY_CONFIG", "GIVEWAY_DATA"})
"""Variables that stand for flags."""

_WORDS_SHOWN = frozenset({"int_parsing", "float_parsing", "bool_parsing", "literal_error"})
_A_NAME = (
    "must be at most 63 letters, digits, dots, dashes and underscores, "
    "beginning with a letter or digit"
)
_A_VARIABLE = "must be the name of the variable that holds the key, not the key itself"
_EXAMPLES = {
    "GIVEWAY_POOLS": '[{"name": "main", "total": 8}]',
    "GIVEWAY_ENDPOINTS": '[{"name": "gpu-a", "base_url": "http://127.0.0.1:8000/v1", '
    '"models": ["m"]}]',
}


def explain(error: ValidationError, model: type[Settings], path: Path | None) -> list[str]:
    """One sentence a fault: the file and line or the variable, the table, and what would be right.

    `path` is the settings file that was read, None for none. Which variables were set is taken
    from the process's environment.
    """
    origins = Origins(model, path, os.environ)
    faults = error.errors(include_url=False, include_context=False)
    # An array whose elements are all wrong is said to be too short as well: that helps nobody.
    faults = [
        fault
        for fault in faults
        if fault["type"] != "too_short" or not _has_inner(fault["loc"], faults)
    ]
    faults.sort(key=lambda fault: origins.line(fault["loc"]) or 0)
    return list(dict.fromkeys(_sentence(fault, model, origins) for fault in faults))


def unknown_variables(model: type[Settings], environment: Mapping[str, str]) -> list[str]:
    """A sentence for each GIVEWAY_ variable that is no setting."""
    known = variables(model)
    return [
        _unknown_variable(name, known)
        for name in sorted(environment)
        if name.upper().startswith(PREFIX) and name.upper() not in {*known, *NOT_SETTINGS}
    ]


def malformed_variables(model: type[Settings], environment: Mapping[str, str]) -> list[str]:
    """A sentence for each variable whose value must be JSON, but is not. Shows no value.

    An empty variable is one that is not set, as compose passes it on.
    """
    sentences = []
    for name, as_json in variables(model).items():
        value = next((v for k, v in environment.items() if k.upper() == name), None)
        if not as_json or not value:
            continue
        try:
            json.loads(value)
        except json.JSONDecodeError as error:
            said = error.msg[:1].lower() + error.msg[1:]
            sentences.append(f"{name}: not JSON: {said} at column {error.colno}; {_instead(name)}")
    return sentences


def unknown_key(key: str, known: Iterable[str]) -> str:
    """`unknown key 'totl'; did you mean 'total'? known keys: …`."""
    known = sorted(known)
    near = _nearest(key, known)
    hint = f" did you mean {near!r}?" if near else ""
    return f"unknown key {key!r};{hint} known keys: {', '.join(known)}"


def _has_inner(at: KeyPath, faults: Iterable[ErrorDetails]) -> bool:
    return any(len(f["loc"]) > len(at) and f["loc"][: len(at)] == at for f in faults)


def _sentence(fault: ErrorDetails, model: type[Settings], origins: Origins) -> str:
    at: KeyPath = fault["loc"]
    if fault["type"] == "value_error" and at and table_at(model, at) is not None:
        # A rule about a whole table: it names the keys itself.
        return _joined(origins.of(at), origins.label(at), _what(fault, model))
    label = origins.label(at) if len(at) > 1 else ""
    what = _what(fault, model)
    if at and fault["type"] not in ("extra_forbidden", "missing"):
        what = f"{_key(at, model)}{_shown(fault, model)}: {what}"
    return _joined(origins.of(at), label, what)


def _joined(*parts: str) -> str:
    return ": ".join(filter(None, parts))


def _key(at: KeyPath, model: type[Settings]) -> str:
    """The key as it is written in its table: `total`, `options.gain`, `models, element 2`."""
    depth = max(n for n in range(len(at)) if table_at(model, at[:n]) is not None)
    named = ".".join(step for step in at[depth:] if isinstance(step, str))
    elements = [f", element {step + 1}" for step in at[depth:] if isinstance(step, int)]
    return named + "".join(elements)


def _what(fault: ErrorDetails, model: type[Settings]) -> str:
    """What is wrong, and what would be right."""
    at, kind = fault["loc"], fault["type"]
    key = str(at[-1]) if at else ""
    if kind == "extra_forbidden":
        return _unknown_key(key, model, at[:-1])
    an_array = f"write [[{key}]] with two brackets, once for each"
    words = {
        "value_error": fault["msg"].removeprefix("Value error, "),
        "missing": f"{key!r} is missing",
        "tuple_type": an_array if table_at(model, at) is not None else "must be a list",
        "model_type": "must be a table",
        "model_attributes_type": "must be a table",
        "dict_type": "must be a table",
        "string_pattern_mismatch": _A_VARIABLE if key == "api_key_env" else _A_NAME,
    }
    said = fault["msg"].split(", unable to parse")[0]
    return words.get(kind, re.sub(r"^[A-Z][a-z]+ should (be|have)", r"must \1", said))


def _unknown_key(key: str, model: type[Settings], table: KeyPath) -> str:
    homes = [
        f"[{name}]"
        for name, field in model.model_fields.items()
        if not table and is_table(field.annotation) and key in keys_at(model, (name,))
    ]
    if homes:
        return f"unknown key {key!r}; it belongs under {' or '.join(homes)}"
    return unknown_key(key, keys_at(model, table))


def _shown(fault: ErrorDetails, model: type[Settings]) -> str:
    """` = value` where it helps and can be no secret: numbers, and words that should be one."""
    value = fault["input"]
    if is_secret(model, fault["loc"]):
        return ""
    if isinstance(value, bool | int | float):
        return f" = {json.dumps(value)}"
    is_word = isinstance(value, str) and len(value) <= 40 and "://" not in value
    return f" = {json.dumps(value)}" if is_word and fault["type"] in _WORDS_SHOWN else ""


def _unknown_variable(name: str, known: Iterable[str]) -> str:
    known = [*known, *NOT_SETTINGS]
    arrays = [array for array in _EXAMPLES if name.upper().startswith(array + SEPARATOR)]
    if arrays:
        return f"{name}: no such setting; {_instead(arrays[0])}"
    # Compared without the prefix, which makes everything look alike.
    near = _nearest(name.upper().removeprefix(PREFIX), (k.removeprefix(PREFIX) for k in known))
    hint = f"did you mean {PREFIX}{near}?" if near else "`giveway config show` lists the settings"
    return f"{name}: no such setting; {hint}"


def _instead(variable: str) -> str:
    if variable in _EXAMPLES:
        return f"write {variable} as one JSON list: {_EXAMPLES[variable]}"
    return f"set one key at a time, as {variable}{SEPARATOR}KEY, or write a JSON object"


def _nearest(word: str, known: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(word, list(known), n=1, cutoff=0.6)), None)
