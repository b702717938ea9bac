"""How a stack looks in the terminal: while it starts, and in `giveway status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import typer

from app.cli import render

if TYPE_CHECKING:
    from types import TracebackType

    from app.local.state import Addresses, StackState

_SIGNS = {"running": "[green]✓[/]", "starting": "[yellow]…[/]", "restarting": "[red]↻[/]"}


class Starting:
    """On standard error, what the start waits for: a line that changes, or lines where no terminal
    is."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._status = self._console.status("starting")
        self._said = ""

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._status.start()
        else:
            render.note("starting; the first time, Postgres makes its files")
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._status.stop()

    def show(self, state: StackState) -> None:
        """Show this state."""
        parts = [f"{one.name} {_SIGNS.get(one.state, '·')}" for one in state.processes]
        self._status.update("starting  " + "  ".join(parts))
        said = waits_for(state)
        if said and said != self._said and not self._console.is_terminal:
            self._said = said
            render.note(said)


def waits_for(state: StackState) -> str:
    """What is not ready yet; empty: nothing that is known."""
    parts = [
        f"{one.name} (ended, and is started again: {state.data}/logs/{one.name}.log)"
        if one.state == "restarting"
        else one.name
        for one in state.processes
        if one.state not in ("running", "done")
    ]
    return f"waiting for {', '.join(parts)}" if parts else ""


_ADDRESSES = ("database_url", "broker_url", "endpoint_url")


def without_secrets(found: dict[str, Any]) -> dict[str, Any]:
    """The document of `overview` as anybody may see it."""
    from app.logs import masked

    told = {name: _shown(found[name]) for name in _ADDRESSES if found.get(name)}
    error = {"error": masked(str(found["error"]))} if found.get("error") else {}
    return {**found, **told, **error}


def _shown(url: str) -> str:
    from pydantic import SecretStr

    from app.settings.secrets import shown

    return shown(SecretStr(url))


def addresses_of(at: Addresses, *, show_secrets: bool = False) -> list[str]:
    """How to reach everything, a line each; passwords masked unless they are asked for."""
    say = (lambda url: url) if show_secrets else _shown
    flower = at.flower_url and f"{at.flower_url}  user {at.flower_user}, password " + (
        f"in {at.flower_password_file}" if at.flower_password_file else "from the settings"
    )
    named = {
        "Flower": flower,
        "database": at.database_url and say(at.database_url),
        "broker": at.broker_url and say(at.broker_url),
        "endpoint": at.endpoint_url and f"{at.endpoint_url}  (simulated)",
    }
    return [f"{name + ':':<10}{value}" for name, value in named.items() if value]


def print_status(found: dict[str, Any]) -> None:
    """`giveway status` for people; `found` is the document of `overview`, as it is to be seen."""
    if not found["running"]:
        typer.echo(f"no stack runs on {found['data']}; start one with: giveway up")
        return
    typer.echo(f"{found['data']}  (supervisor pid {found['supervisor']['pid']})")
    headings = ("process", "pid", "state", "restarts", "up")
    rows = [
        (
            one["name"],
            str(one["pid"] or "-"),
            one["state"],
            str(one["restarts"]),
            render.span(one["uptime_s"]),
        )
        for one in found["processes"]
    ]
    render.table(headings, rows, right=("pid", "restarts", "up"))
    for line in addresses_of(_addresses(found), show_secrets=True):
        typer.echo(line)
    for pool in found["pools"] or []:
        typer.echo(
            f"pool {pool['name']}: limit {pool['limit']} ({pool['reason']}), "
            f"{pool['batch_in_flight']} batch and {pool['interactive_in_flight']} interactive "
            f"in flight of {pool['total']}"
        )
    if "error" in found:
        typer.echo(f"pools: not known: {found['error']}")


def _addresses(found: dict[str, Any]) -> Addresses:
    from app.local.state import Addresses

    flower = found["flower"] or {}
    return Addresses(
        database_url=found["database_url"],
        broker_url=found["broker_url"],
        flower_url=flower.get("url"),
        flower_user=flower.get("user"),
        flower_password_file=flower.get("password_file"),
        endpoint_url=found["endpoint_url"],
    )
