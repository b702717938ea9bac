"""Options of a command from the fields of a kind's parameters: type, default and help."""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from app.cli.parts.submit_options import option
from app.cli.parts.texts import text_of
from app.kinds.base import Kind

WHAT = "What is sent"
_CHOSEN = {
    "model": "Model that serves it; default: the first fitting one declared.",
    "collection": "Where the vectors go; default: the file's name.",
}
"""Parameters that are found where they are left out, and what their help says."""

_OR_FILE = "@FILE: what that file holds."


@dataclass(frozen=True, slots=True)
class ParamOption:
    """A parameter of a kind as an option. `is_json`: what is typed is JSON, or else plain text.

    A text may be named as `@FILE`; a name, such as a model's, may not: some begin with an @.
    """

    field: str
    parameter: inspect.Parameter
    is_json: bool

    def value(self, given: Any) -> Any:
        """What goes to the kind; it judges itself whether that can be."""
        if isinstance(given, list):
            return [self._one(one) for one in given]
        return self._one(given)

    def _one(self, given: Any) -> Any:
        is_text = isinstance(given, str) and self.field not in _CHOSEN
        text = text_of(given) if is_text else given
        if not self.is_json:
            return text
        try:
            return json.loads(text)
        except ValueError:
            return text


def param_options(kind: Kind, taken: Collection[str]) -> list[ParamOption]:
    """An option for each parameter of `kind`; one whose name is `taken` gets the kind's before it.

    Nothing that is left out reaches the kind: its own defaults hold, and the help tells them.
    """
    return [
        _param_option(field, f"{kind.name}_{field}" if field in taken else field, info)
        for field, info in kind.params.model_fields.items()
    ]


def _param_option(field: str, name: str, info: FieldInfo) -> ParamOption:
    typed = typed_as(info.annotation)
    is_json = typed is None
    must = info.is_required() and field not in _CHOSEN
    plain: Any = str if typed is None else typed
    more: dict[str, Any] = {"metavar": "JSON"} if is_json else {}
    parameter = inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if must else None,
        annotation=Annotated[
            plain if must else plain | None, option(told(field, info), WHAT, **more)
        ],
    )
    return ParamOption(field, parameter, is_json)


def typed_as(annotation: Any) -> Any:
    """The type that typer reads for a field of this one; None: it has to be said in JSON."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return typed_as(inner[0])
    if origin in (Union, types.UnionType):
        there = [one for one in inner if one is not types.NoneType]
        return typed_as(there[0]) if len(there) == 1 else None
    if origin is Literal:
        return annotation if all(isinstance(one, str) for one in inner) else None
    if inspect.isclass(origin) and issubclass(origin, Sequence | AbstractSet):
        each = {typed_as(one) for one in inner if one is not Ellipsis}
        only = each.pop() if len(each) == 1 else None
        return list[only] if only in (str, int, float) else None  # type: ignore[valid-type]
    if annotation in (str, int, float, bool):
        return annotation
    is_word = inspect.isclass(annotation) and issubclass(annotation, StrEnum)
    return annotation if is_word else None


def told(field: str, info: FieldInfo) -> str:
    """The option's help: what the field's docstring or description says, and its default."""
    if field in _CHOSEN:
        return _CHOSEN[field]
    about = (info.description or field.replace("_", " ").capitalize()).split("\n\n")[0]
    said = " ".join(about.split())
    is_text = typed_as(info.annotation) is str and not info.metadata
    file = f" {_OR_FILE}" if is_text else ""
    default = info.default
    if default is PydanticUndefined or default in (None, "", (), [], {}):
        return said + file
    return f"{said.rstrip('.')}; default: {_as_typed(default)}.{file}"


def _as_typed(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case tuple() | list():
            return ", ".join(map(str, value))
        case _:
            return str(value)
