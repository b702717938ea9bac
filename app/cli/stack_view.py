"""How a stack looks in the terminal: while it starts, and in `giveway status`."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.table import Table

from app.local.state import Addresses, StackState

_SIGNS = {"running": "[green]✓[/]", "starting": "[yellow]…[/]", "restarting": "[red]↻[/]"}


class Starting:
    """A line on standard error that says which processes are up; nothing where nobody looks."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._status = self._console.status("starting")

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._status.start()
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


def addresses_of(at: Addresses) -> list[str]:
    """How to reach everything, a line each; passwords masked."""
    from app.logs import masked

    flower = at.flower_url and f"{at.flower_url}  user {at.flower_user}, password " + (
        f"in {at.flower_password_file}" if at.flower_password_file else "from the settings"
    )
    named = {
        "Flower": flower,
        "database": at.database_url and masked(at.database_url),
        "broker": at.broker_url and masked(at.broker_url),
        "endpoint": at.endpoint_url and f"{at.endpoint_url}  (simulated)",
    }
    return [f"{name + ':':<10}{value}" for name, value in named.items() if value]


def print_status(found: dict[str, Any]) -> None:
    """`giveway status` for people; `found` is the document of `overview`."""
    console = Console()
    if not found["running"]:
        console.print(f"no stack runs on {found['data']}; start one with: giveway up")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("process", "pid", "state", "restarts", "up"):
        table.add_column(
            heading, justify="right" if heading in ("pid", "restarts", "up") else "left"
        )
    for one in found["processes"]:
        up_s = one["uptime_s"]
        table.add_row(
            one["name"],
            str(one["pid"] or "-"),
            f"{_SIGNS.get(one['state'], '')} {one['state']}",
            str(one["restarts"]),
            "-" if up_s is None else _span(up_s),
        )
    console.print(f"{found['data']}  (supervisor pid {found['supervisor']['pid']})")
    console.print(table)
    flower = found["flower"] or {}
    at = Addresses(
        database_url=found["database_url"],
        broker_url=found["broker_url"],
        flower_url=flower.get("url"),
        flower_user=flower.get("user"),
        flower_password_file=flower.get("password_file"),
        endpoint_url=found["endpoint_url"],
    )
    for line in addresses_of(at):
        console.print(line, markup=False, soft_wrap=True)
    for pool in found["pools"] or []:
        facts = ", ".join(f"{key} {value}" for key, value in pool.items() if key != "name")
        console.print(f"pool {pool.get('name')}: {facts}", markup=False, soft_wrap=True)
    if "error" in found:
        console.print(f"pools: {found['error']}", markup=False, soft_wrap=True)


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes} min"
        if hours
        else f"{minutes} min {rest} s"
        if minutes
        else f"{rest} s"
    )
