"""`giveway report`: what happened lately, as tables, as JSON, or as one page of HTML."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import render
from app.cli.common import DEFAULT_DATA, Config, Data, Force, JsonFlag, wiring_for
from app.domain.moments import seconds
from app.errors import UsageError

if TYPE_CHECKING:
    from app.domain.reports import Report

PANEL = "Operations"


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(report)


def report(
    since: Annotated[str, typer.Option(help="How far back: 10m, 1h, 2d.")] = "1h",
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Write one page that needs nothing else.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Tell what happened: backlog, endpoints, limits, jobs, errors, people, tokens and money.

    All of it is of one moment; the page begins at the first event in that time. Kinds, keys, codes
    and numbers only: no texts of anybody.
    """
    from app.storage.sinks.writing import PAGES, check_output, write_page

    since_s = seconds(since)
    if not since_s > 0:
        raise UsageError(f"--since {since!r} must be more than nothing, such as 1h")
    if html is not None:
        check_output(str(html), force=force, what="a page", endings=PAGES)
    with wiring_for(config, data) as wiring:
        found = wiring.reporting.report(since_s, from_first=html is not None)
    if html is not None:
        from app.cli.parts.report_page import page

        write_page(html, page(found))
        render.note(f"written: {html}")
    if as_json:
        render.json_document(document(found))
    elif html is None:
        from app.cli.parts.report_view import print_report

        print_report(found)


def document(found: Report) -> dict[str, Any]:
    """The report as JSON takes it."""
    sums = {name: getattr(found, name) for name in ("tokens", "rough_tokens", "money", "priced")}
    return asdict(found) | sums
