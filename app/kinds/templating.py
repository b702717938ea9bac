"""Prompt templates over an item's fields: Jinja in its sandbox."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

# A field that the item does not have is that item's error, not an empty place in the prompt.
_TEMPLATES = ImmutableSandboxedEnvironment(
    autoescape=False,
    keep_trailing_newline=True,
    undefined=StrictUndefined,
)


def checked_template(prompt: str) -> str:
    """`prompt`, if it is a template; ValueError says why it is none."""
    try:
        _template(prompt)
    except TemplateError as error:
        raise ValueError(f"not a template: {error.message}") from None
    return prompt


def fields_of(prompt: str) -> frozenset[str]:
    """The fields that a template may ask an item for. ValueError: it is no template."""
    return frozenset(meta.find_undeclared_variables(_TEMPLATES.parse(checked_template(prompt))))


def names_no_field(prompt: str) -> str | None:
    """What is to be said of a prompt that is the same for all items; None: it names a field."""
    if fields_of(prompt):
        return None
    return (
        "the prompt names no field of an item, so the same is asked for each; write {{ text }} "
        "where the item's text belongs"
    )


def rendered(prompt: str, fields: Mapping[str, Any]) -> str:
    """The prompt for an item. ValueError says why it has none, without the item's text."""
    try:
        return _template(prompt).render(fields)
    except TemplateError as error:
        raise ValueError(f"the template failed on this item: {error.message}") from None
    except Exception as error:  # noqa: BLE001 - a template may divide by nought as well
        why = f"the template failed on this item: {type(error).__name__}"
        raise ValueError(why) from None


@functools.cache
def _template(prompt: str) -> Template:
    return _TEMPLATES.from_string(prompt)
