"""A command of `giveway submit` for a kind of job, made from the model of its parameters."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from app.cli.common import DEFAULT_DATA, Config, Data, JsonFlag, moment, wiring_for
from app.cli.parts import submit_options as shared
from app.cli.parts.kind_params import WHAT, ParamOption, param_options
from app.cli.parts.submit_options import option
from app.errors import UsageError
from app.kinds.base import Kind, checked
from app.kinds.registry import kinds

if TYPE_CHECKING:
    from app.services.submission import JobRequest
    from app.storage.sources.base import ReadOptions

_ABOUT_JOBS = (
    "The job runs in the background, at the pace that people leave. Submitting the same file again "
    "gives the same job back. Its answers are written out by `giveway results JOB`."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What can be said of a job of any kind; each field is an option, in this order."""

    file: shared.File
    text_field: Annotated[str, option("Field that is the item's text; default: text.", WHAT)] = (
        "text"
    )
    id_field: Annotated[
        str | None, option("Field that names an item; default: its number in the file.", WHAT)
    ] = None
    field: Annotated[
        list[str] | None,
        option("One more field of each item; may be given again.", WHAT, metavar="NAME=COLUMN"),
    ] = None
    format: shared.Format = None
    delimiter: shared.Delimiter = None
    lenient: shared.Lenient = False
    key: shared.Key = None
    name: shared.Name = None
    priority: shared.Priority = 0
    weight: shared.Weight = 1.0
    max_in_flight: shared.MaxInFlight = None
    chunk_items: shared.ChunkItems = None
    deadline: shared.Deadline = None
    no_yield: shared.NoYield = False
    wait: shared.Wait = False
    as_json: JsonFlag = False
    config: Config = None
    data: Data = DEFAULT_DATA

    def read_options(self) -> ReadOptions:
        """How the file is read. UsageError: a --field that cannot be."""
        from app.storage.sources.base import ReadOptions

        return ReadOptions(
            id_field=self.id_field,
            text_field=self.text_field,
            fields=columns(self.field or ()),
            delimiter=self.delimiter,
            format=self.format,
            lenient=self.lenient,
        )

    def request(self, kind: Kind, params: Mapping[str, Any]) -> JobRequest:
        """What is asked for."""
        from app.services.submission import JobRequest

        return JobRequest(
            kind=kind.name,
            params=params,
            key=self.key,
            name=self.name,
            priority=self.priority,
            weight=self.weight,
            max_in_flight=self.max_in_flight,
            may_yield=not self.no_yield,
            chunk_items=self.chunk_items,
            deadline_at=moment(self.deadline),
        )


def commands_of_kinds(but: Collection[str] = ()) -> dict[str, Any]:
    """A command for every kind of job that is not in `but`, by the kind's name."""
    made = typer.Typer(rich_markup_mode="markdown")
    made.callback()(lambda: None)  # Without one, typer makes a single command the whole program.
    for name, kind in sorted(kinds().items()):
        if name not in but:
            made.command(name, help=about(kind))(command_of(kind))
    group: Any = typer.main.get_command(made)
    return dict(group.commands)


def command_of(kind: Kind) -> Callable[..., None]:
    """The function that typer makes the kind's command of: common options, then parameters."""
    common = _common_parameters()
    own = param_options(kind, taken={parameter.name for parameter in common})
    names = {field.name for field in fields(Common)}

    def command(**given: Any) -> None:
        told = Common(**{name: value for name, value in given.items() if name in names})
        submit_kind(kind, told, _params(own, given))

    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*common, *(one.parameter for one in own)]
    )
    return command


def submit_kind(kind: Kind, told: Common, given: Mapping[str, Any]) -> None:
    """Submit a job of `kind` with the parameters `given`; its model may be left to be chosen.

    Parameters that cannot be are refused before anything is opened: BadParams.
    """
    from app.cli.parts.items import on_disk
    from app.cli.parts.models import chat_model, embedding_model
    from app.cli.parts.submitting import Source, submit

    options = told.read_options()
    likely = checked(kind, {"model": "model", **given})
    chosen = chat_model if kind.collection(likely) is None else embedding_model
    with (
        wiring_for(told.config, told.data) as wiring,
        on_disk(told.file, told.data) as (path, shown_as),
    ):
        params = {**given, "model": chosen(wiring.pools, given.get("model"))}
        source = Source(path, shown_as, options)
        submit(wiring, told.request(kind, params), source, wait=told.wait, as_json=told.as_json)


def columns(texts: Sequence[str]) -> dict[str, str]:
    """Columns by the name that their values get. UsageError: not NAME=COLUMN, or said twice."""
    found: dict[str, str] = {}
    for text in texts:
        name, _, column = text.partition("=")
        if not name or not column:
            raise UsageError(f"--field wants NAME=COLUMN, such as title=headline; not {text!r}")
        if name == "text":
            raise UsageError("the field 'text' is chosen with --text-field, not with --field")
        if name in found:
            raise UsageError(f"--field names {name!r} twice: {found[name]!r} and {column!r}")
        found[name] = column
    return found


def about(kind: Kind) -> str:
    """What the kind's command says of itself; its first line stands in the list of kinds."""
    docstring = vars(kind.params).get("__doc__")
    return "\n\n".join(
        [headline(kind), *([inspect.cleandoc(docstring)] if docstring else []), _ABOUT_JOBS]
    )


def headline(kind: Kind) -> str:
    """The first line of the docstring of the kind's module: `summary: a shorter text.`"""
    module = sys.modules.get(type(kind).__module__)
    line = next(iter(inspect.cleandoc(getattr(module, "__doc__", None) or "").splitlines()), "")
    said = line.removeprefix(f"{kind.name}:").strip() or f"submit a job of kind {kind.name}."
    return said[0].upper() + said[1:]


def _params(own: Sequence[ParamOption], given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that were given, by the names the kind has for them."""
    return {
        one.field: one.value(given[one.parameter.name])
        for one in own
        if given[one.parameter.name] not in (None, [])
    }


def _common_parameters() -> list[inspect.Parameter]:
    hints = get_type_hints(Common, include_extras=True)
    return [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(Common).parameters.items()
    ]
