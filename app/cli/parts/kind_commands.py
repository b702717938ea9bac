"""A command of `giveway submit` for a kind of job, made from the model of its parameters."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from app.cli.common import DEFAULT_DATA, Config, Data, JsonFlag, wiring_for
from app.cli.parts import submit_options as shared
from app.cli.parts.kind_params import WHAT, ParamOption, param_options
from app.cli.parts.submit_options import option
from app.errors import UsageError
from app.kinds.base import Kind, checked
from app.kinds.registry import kinds

if TYPE_CHECKING:
    from app.services.templates import JobTemplate
    from app.wiring import Wiring

_ABOUT_JOBS = (
    "The job runs in the background, at the pace that people leave. Submitting the same again "
    "gives the same job back."
)
_ABOUT_ANSWERS = "Its answers are written out by `giveway results JOB`."
_ABOUT_VECTORS = (
    "Its vectors go to a collection that `giveway search` can look into; a text that has its "
    "vector already costs no call."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What can be said of a job of any kind; each field is an option, in this order."""

    file: shared.File = None
    source: shared.Source = None
    query: shared.Query = None
    table: shared.Table = None
    keyset: shared.Keyset = False
    where: shared.Where = None
    limit: shared.Limit = None
    text_field: Annotated[str, option("Field that is the item's text; default: text.", WHAT)] = (
        "text"
    )
    id_field: Annotated[
        str | None,
        option("Field that names an item; default: its number in the file, or its path.", WHAT),
    ] = None
    field: Annotated[
        list[str] | None,
        option("One more field of each item; may be given again.", WHAT, metavar="NAME=COLUMN"),
    ] = None
    format: shared.Format = None
    delimiter: shared.Delimiter = None
    encoding: shared.Encoding = None
    lenient: shared.Lenient = False
    key: shared.Key = None
    name: shared.Name = None
    priority: shared.Priority = 0
    weight: shared.Weight = 1.0
    tenant: shared.Tenant = None
    max_in_flight: shared.MaxInFlight = None
    chunk_items: shared.ChunkItems = None
    deadline: shared.Deadline = None
    window: shared.Window = None
    after: shared.After = None
    failover: shared.FailoverOption = None
    budget: shared.Budget = None
    delete_missing: shared.DeleteMissing = None
    webhook: shared.Webhook = None
    webhook_secret_env: shared.WebhookSecretEnv = None
    no_yield: shared.NoYield = False
    resume_streamed: shared.ResumeStreamed = False
    dry_run: shared.DryRun = False
    wait: shared.Wait = False
    as_json: JsonFlag = False
    config: Config = None
    data: Data = DEFAULT_DATA

    @property
    def uri(self) -> str:
        """Where the items come from. UsageError: said twice, or not at all."""
        if self.file is not None and self.source is not None:
            raise UsageError(f"give FILE or --source, not both: {self.file} and --source")
        uri = self.file if self.file is not None else self.source
        if uri is None:
            raise UsageError("name a FILE, or a database or data set with --source")
        return uri

    def template(self, kind: Kind, params: Mapping[str, Any]) -> JobTemplate:
        """What is asked for. UsageError: what cannot be."""
        from app.services.templates import asked_template

        if (self.webhook is None) != (self.webhook_secret_env is None):
            raise UsageError("--webhook and --webhook-secret-env go together: calls are signed")
        webhook = self.webhook and {"url": self.webhook, "secret_env": self.webhook_secret_env}
        source = {
            "uri": self.uri,
            "query": self.query,
            "table": self.table,
            "keyset": self.keyset,
            "id_field": self.id_field,
            "text_field": self.text_field,
            "fields": columns(self.field or ()),
            "format": self.format,
            "delimiter": self.delimiter,
            "encoding": self.encoding,
            "lenient": self.lenient,
            "limit": self.limit,
            "where": self.where,
        }
        given = {
            "kind": kind.name,
            "params": dict(params),
            "source": source,
            "name": self.name,
            "priority": self.priority,
            "weight": self.weight,
            "tenant": self.tenant,
            "max_in_flight": self.max_in_flight,
            "may_yield": not self.no_yield,
            "resume_streamed": self.resume_streamed,
            "chunk_items": self.chunk_items,
            "failover": self.failover,
            "budget": self.budget,
            "deadline": self.deadline,
            "window": self.window,
            "after": tuple(self.after or ()),
            "webhook": webhook,
            "delete_missing": self.delete_missing,
        }
        return asked_template({k: v for k, v in given.items() if v is not None})


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
    from app.cli.parts import keeping
    from app.cli.parts.submitting import submit, warn_of_slips

    uri = told.uri
    if "collection" in kind.params.model_fields and "collection" not in given:
        given = {**given, "collection": collection_of(uri)}
    checked(kind, {"model": "model", **given})
    if (wanted := keeping.wanted()) is not None:
        template = told.template(kind, with_model(kind, given, wanted.wiring))
        warn_of_slips(template)
        wanted.keep(told, template)
        return
    with wiring_for(told.config, told.data) as wiring:
        template = told.template(kind, with_model(kind, given, wiring))
        warn_of_slips(template)
        if told.dry_run:
            from app.cli.parts.estimate import estimate

            estimate(wiring, template, told.key, as_json=told.as_json)
            return
        submit(wiring, template, told.key, wait=told.wait, as_json=told.as_json)


def with_model(kind: Kind, given: Mapping[str, Any], wiring: Wiring) -> dict[str, Any]:
    """`given` with a model: the one named, which must be served, or the first fitting one."""
    from app.cli.parts.models import chat_model, embedding_model

    vectors = kind.collection(checked(kind, {"model": "model", **given})) is not None
    chosen = embedding_model if vectors else chat_model
    named = given.get("model")
    return {**given, "model": chosen(wiring.pools_with(named), named)}


def collection_of(uri: str) -> str:
    """The collection that a file's vectors go to where none is named: its stem, as a name."""
    from app.storage.sources.origins import STDIN, is_stream

    once = is_stream(uri)
    is_file = not once and "://" not in uri and not uri.startswith(("hf:", "env:"))
    stem = Path(uri).name.split(".")[0] if is_file else ""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-_")[:63]
    if not name:
        said = "standard input has" if uri == STDIN else "a source that is no file has"
        said = f"{uri} gives" if is_file else said
        raise UsageError(f"name the collection with --collection; {said} no name for one")
    return name


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
    said = [inspect.cleandoc(docstring)] if docstring else []
    made = _ABOUT_VECTORS if "collection" in kind.params.model_fields else _ABOUT_ANSWERS
    return "\n\n".join([headline(kind), *said, f"{_ABOUT_JOBS} {made}"])


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
