"""`giveway up`, `down` and `status`: the stack on this machine."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import render
from app.cli.common import DEFAULT_DATA, Config, Data, JsonFlag

if TYPE_CHECKING:
    from app.local.options import StackOptions
    from app.local.state import StackState
    from app.settings import Settings

Port = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="A free one is chosen without.", show_default=False),
]
PANEL = "The stack"


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(up)
    app.command()(down)
    app.command()(restart)
    app.command()(status)


def up(
    *,
    config: Config = None,
    data: Data = DEFAULT_DATA,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return once everything is ready.")
    ] = False,
    postgres_port: Port = None,
    valkey_port: Port = None,
    endpoint_port: Port = None,
    flower_port: Port = None,
    flower: Annotated[bool, typer.Option(help="Run Flower.")] = True,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Start only this process; may be given again."),
    ] = None,
) -> None:
    """Start Postgres, the broker, the workers, beat and Flower; restart what dies.

    Only what is missing is started: set [database] url or [broker] url to use your own. Ctrl-C
    stops everything; with --detach, `giveway down` does.
    """
    from app.local.options import StackOptions

    options = StackOptions(
        data=data,
        config=config,
        postgres_port=postgres_port,
        valkey_port=valkey_port,
        endpoint_port=endpoint_port,
        flower_port=flower_port,
        flower=flower,
        only=tuple(only or ()),
    )
    _warn_of_unset_keys(options)
    if detach:
        _in_background(options)
    else:
        _in_foreground(options)


def _warn_of_unset_keys(options: StackOptions) -> None:
    from app.declared.knowledge import unset_keys
    from app.settings import load

    for sentence in unset_keys(load(options.config), os.environ):
        render.note(f"warning: {sentence}")


def down(data: Data = DEFAULT_DATA) -> None:
    """Stop the stack and wait until all of it is gone."""
    from app.local import background

    with _spinner("stopping"):
        stopped = background.stop(data)
    typer.echo(f"stopped the stack on {data}" if stopped else f"no stack runs on {data}")


def restart(data: Data = DEFAULT_DATA) -> None:
    """Let workers, beat and the rest take up changed settings; Postgres and the broker stay up.

    Nothing is lost: chunks in work go back with what they have, no attempt counted, and people's
    requests wait in the broker meanwhile. Wrong settings are refused, and everything runs on.
    """
    from app.cli.stack_view import Starting
    from app.local import background

    with Starting() as view:
        state = background.restart(data, view.show)
    typer.echo(f"the stack on {state.data} runs with the settings as they are now")


def status(
    data: Data = DEFAULT_DATA,
    as_json: JsonFlag = False,
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Show passwords in addresses, for scripts.")
    ] = False,
) -> None:
    """Say what runs, and how to reach it. Exit status 1 if nothing does."""
    from app.cli.stack_view import print_status, without_secrets
    from app.local.overview import overview

    found = overview(data, _pools)
    if not show_secrets:
        found = without_secrets(found)
    if as_json:
        render.json_document(found)
    else:
        print_status(found)
    if not found["running"]:
        raise typer.Exit(1)


def _pools(settings: Settings) -> list[dict[str, Any]]:
    from app.cli.parts.throttle_view import pool_document
    from app.wiring import Wiring

    wiring = Wiring(settings)
    try:
        return [pool_document(view) for view in wiring.inspection.pools()]
    finally:
        wiring.close()


def _in_foreground(options: StackOptions) -> None:
    from app.cli.stack_view import addresses_of
    from app.local.options import PROCESSES
    from app.local.output import Terminal
    from app.local.run import run_stack
    from app.local.supervisor import NAME

    terminal = Terminal(sys.stdout, PROCESSES)
    told = False

    def tell(state: StackState) -> None:
        nonlocal told
        if state.ready and not told:
            told = True
            for line in (
                "ready; Ctrl-C stops everything",
                *addresses_of(state.addresses),
                *_told_of_queues(options),
            ):
                terminal.line(NAME, line)

    run_stack(options, terminal, tell)


def _in_background(options: StackOptions) -> None:
    from app.cli.stack_view import Starting, addresses_of
    from app.local import background

    with Starting() as view:
        state = background.start(options, view.show)
    typer.echo(f"the stack on {state.data} is ready (pid {state.supervisor.pid})")
    for line in addresses_of(state.addresses):
        typer.echo(line)
    for line in _told_of_queues(options):
        typer.echo(line)
    typer.echo(f"logs: {state.data}/logs; stop it with: giveway down --data {options.data}")


def _told_of_queues(options: StackOptions) -> list[str]:
    """A sentence for each queue that another program declared otherwise, at one's own broker."""
    from app.cli.parts.bell import look
    from app.domain.examination.broker import queues
    from app.domain.examination.findings import Severity
    from app.settings import load

    settings = load(options.config)
    if settings.broker.url is None:
        return []
    return [
        f"{one.severity}: {one.where}: {one.what}; {one.right}"
        for one in queues(look(settings))
        if one.severity is not Severity.OK
    ]


def _spinner(words: str) -> Any:
    if not render.on_terminal():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(words)
