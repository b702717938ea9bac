"""`giveway submit`: a file becomes a job, once. Each kind of job is a command of the group."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from app.cli.common import DEFAULT_DATA, Config, Data, JsonFlag, moment, wiring_for
from app.cli.parts import submit_options as shared
from app.cli.parts.kind_group import KindGroup
from app.cli.parts.submit_options import option
from app.errors import UsageError

PANEL = "Jobs"
ORDER = 0
_WHAT = "What is embedded"


def register(app: typer.Typer) -> None:
    """Add the group `submit` to `app`. Kinds that have no command here are given one."""
    group = typer.Typer(
        cls=KindGroup,
        no_args_is_help=True,
        help="Submit a job; each kind of job is a command.",
    )
    group.command("embed")(embed)
    app.add_typer(group, name="submit")


def embed(
    file: shared.File,
    text_field: Annotated[str, option("Field that is embedded; default: text.", _WHAT)] = "text",
    id_field: Annotated[
        str | None, option("Field that names an item; default: its number in the file.", _WHAT)
    ] = None,
    collection: Annotated[
        str | None, option("Where the vectors go; default: the file's name.", _WHAT)
    ] = None,
    model: Annotated[
        str | None, option("Embedding model; default: the first one declared.", _WHAT)
    ] = None,
    prefix: Annotated[str, option('Put before every text, such as "passage: ".', _WHAT)] = "",
    format: shared.Format = None,  # noqa: A002
    delimiter: shared.Delimiter = None,
    lenient: shared.Lenient = False,
    key: shared.Key = None,
    name: shared.Name = None,
    priority: shared.Priority = 0,
    weight: shared.Weight = 1.0,
    max_in_flight: shared.MaxInFlight = None,
    chunk_items: shared.ChunkItems = None,
    deadline: shared.Deadline = None,
    no_yield: shared.NoYield = False,
    wait: shared.Wait = False,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Embed the texts of FILE into a collection that `giveway search` can look into.

    The job runs in the background, at the pace that people leave. Submitting the same file again
    gives the same job back; a text that has its vector already costs no call.
    """
    from app.cli.parts.items import on_disk
    from app.cli.parts.models import embedding_model
    from app.cli.parts.submitting import Source, submit
    from app.services.submission import JobRequest
    from app.storage.sources.base import ReadOptions

    options = ReadOptions(
        id_field=id_field,
        text_field=text_field,
        delimiter=delimiter,
        format=format,
        lenient=lenient,
    )
    with wiring_for(config, data) as wiring, on_disk(file, data) as (path, shown_as):
        params = {
            "model": embedding_model(wiring.pools, model),
            "collection": collection or collection_of(file),
            "prefix": prefix,
        }
        request = JobRequest(
            kind="embed",
            params=params,
            key=key,
            name=name,
            priority=priority,
            weight=weight,
            max_in_flight=max_in_flight,
            may_yield=not no_yield,
            chunk_items=chunk_items,
            deadline_at=moment(deadline),
        )
        submit(wiring, request, Source(path, shown_as, options), wait=wait, as_json=as_json)


def collection_of(file: str) -> str:
    """The collection that a file's vectors go to where none is named: its stem, as a name."""
    stem = Path(file).name.split(".")[0] if file != "-" else ""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-_")[:63]
    if not name:
        said = "standard input has" if file == "-" else f"{file} gives"
        raise UsageError(f"name the collection with --collection; {said} no name for one")
    return name
