"""`giveway doctor`: what is wrong with a running installation, and what would be right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import render
from app.cli.common import DEFAULT_DATA, Config, Data, JsonFlag, seconds, wiring_for
from app.logs import masked

if TYPE_CHECKING:
    from app.domain.examination.findings import Finding

PANEL = "Operations"


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(doctor)


def doctor(
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit status 1 for warnings too.")
    ] = False,
    old_snapshot: Annotated[
        str, typer.Option(help="How long a transaction may keep its snapshot: 90s, 5m, 1h.")
    ] = "5m",
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Look at database, broker, pools, endpoints and jobs, and say what is wrong, worst first.

    Exit status 1 if something is an error. Nothing is changed and no endpoint is called; what does
    not answer within a few seconds is said to be away.
    """
    from app.cli.parts.bell import look
    from app.domain.examination.findings import passes

    old_s = seconds(old_snapshot)
    with wiring_for(config, data) as wiring:
        found = wiring.examining.examine(lambda: look(wiring.settings), old_s)
    is_well = passes(found, strict=strict)
    if as_json:
        render.json_document(document(found, is_well=is_well))
    else:
        rows = [(f.severity.value, *map(_line, (f.where, f.what, f.right or ""))) for f in found]
        render.table(("", "where", "what", "what would be right"), rows)
        typer.echo(_summary(found))
    if not is_well:
        raise typer.Exit(render.FAILED)


def document(found: Sequence[Finding], *, is_well: bool) -> dict[str, Any]:
    """The findings as JSON takes them: `{"ok", "errors", "warnings", "findings": […]}`."""
    counts = _counts(found)
    findings = [
        {name: masked(v) if isinstance(v, str) else v for name, v in asdict(one).items()}
        for one in found
    ]
    return {
        "ok": is_well,
        "errors": counts["error"],
        "warnings": counts["warning"],
        "findings": findings,
    }


def _summary(found: Sequence[Finding]) -> str:
    from app.domain.examination.findings import counted

    counts = _counts(found)
    return (
        f"{counted(counts['error'], 'error')}, {counted(counts['warning'], 'warning')}, "
        f"{counted(counts['ok'], 'check')} well"
    )


def _counts(found: Sequence[Finding]) -> dict[str, int]:
    return {
        name: sum(one.severity.value == name for one in found)
        for name in ("error", "warning", "ok")
    }


def _line(text: str) -> str:
    return masked(" ".join(text.split()))
