"""What `giveway endpoints add` is told of an endpoint beside its own options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.errors import UsageError

_SET = "--set takes KEY=VALUE, such as requests_per_minute=60"
_LIMIT = (
    "--limit takes MODEL:KEY=VALUE, such as small-embed:max_batch_items=32,max_input_tokens=512"
)


def keys(given: Sequence[str] | None) -> dict[str, Any]:
    """`--set KEY=VALUE`, each. UsageError: one is no such pair."""
    return dict(_pair(one, f"{_SET}; got {one!r}") for one in given or ())


def limits(given: Sequence[str] | None) -> list[dict[str, Any]]:
    """`--limit MODEL:KEY=VALUE,…` as tables of `[[endpoints.limits]]`, one a model. UsageError."""
    tables: dict[str, dict[str, Any]] = {}
    for one in given or ():
        wrong = f"{_LIMIT}; got {one!r}"
        # A model's name may hold colons, as Ollama's do; a key does not.
        model, sign, _ = one.partition("=")[0].rpartition(":")
        if not sign or not model.strip():
            raise UsageError(wrong)
        pairs = (_pair(pair, wrong) for pair in one[len(model) + 1 :].split(","))
        tables.setdefault(model.strip(), {"model": model.strip()}).update(pairs)
    return list(tables.values())


def _pair(given: str, wrong: str) -> tuple[str, str]:
    key, sign, value = (part.strip() for part in given.partition("="))
    if not sign or not key:
        raise UsageError(wrong)
    return key, value
