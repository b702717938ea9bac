"""`giveway scaling`: what is wanted, and the processes that give it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import render
from app.cli.common import DEFAULT_DATA, Config, Data, JsonFlag, wiring_for
from app.domain.moments import seconds
from app.errors import UsageError

if TYPE_CHECKING:
    from app.local.scaled.agent import Agent
    from app.settings import ScalingSettings
    from app.wiring import Wiring

PANEL = "Operations"
_STEP_S = 0.5

Grace = Annotated[str, typer.Option(help="When stopped, how long to wait for what is in flight.")]


def register(app: typer.Typer) -> None:
    """Add the group `scaling` to `app`."""
    group = typer.Typer(
        no_args_is_help=True, help="See and serve the number of endpoints that a pool needs."
    )
    for command in (show, agent, join):
        group.command()(command)
    app.add_typer(group, name="scaling")


def show(as_json: JsonFlag = False, config: Config = None, data: Data = DEFAULT_DATA) -> None:
    """Show how many endpoints each scaled pool has, and how many it wants."""
    with wiring_for(config, data) as wiring:
        rows = [_shown(wiring, one) for one in wiring.settings.scaling]
    if as_json:
        render.json_document({"pools": rows})
        return
    if not rows:
        typer.echo("nothing is scaled; see [[scaling]] in docs/howto/scale.md")
        return
    render.table(
        ("pool", "target", "serving", "wanted", "least", "most"),
        ([str(value) for value in row.values()] for row in rows),
        ("serving", "wanted", "least", "most"),
    )


def agent(
    pool: Annotated[
        str | None,
        typer.Option("--pool", help="Default: every pool scaled by processes.", show_default=False),
    ] = None,
    host: Annotated[
        str,
        typer.Option(help="This machine's address, as workers reach it; {host} in the command."),
    ] = "127.0.0.1",
    grace: Grace = "30s",
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Start and stop endpoint processes as automatic scaling wants them. Runs until it is stopped.

    `giveway up` runs one by itself. Elsewhere, run one for each pool, on the machine that has the
    GPUs. A leaving endpoint gets nothing new and ends when it has finished what it has.
    """
    from app import logs
    from app.local import lock
    from app.local.scaled.agent import run

    logs.configure("INFO")
    grace_s = seconds(grace)
    with wiring_for(config, data) as wiring:
        chosen = _chosen(wiring.settings.scaling, pool)
        _hide_our_settings()
        folder = data.resolve() / "scaling"
        if lock.is_held(folder, within_s=1.0):
            raise UsageError(f"another agent runs on {folder}; choose another --data, or end it")
        with lock.held(folder), _stopped_by_signals() as stopping:
            agents = [_agent(wiring, one, folder, host) for one in chosen]
            typer.echo(f"scaling {', '.join(one.pool for one in chosen)}")
            run(agents, stopping, _STEP_S, grace_s)


def join(
    url: Annotated[str, typer.Argument(metavar="URL", help="Such as http://10.0.0.7:8000/v1.")],
    pool: Annotated[str, typer.Option("--pool")],
    name: Annotated[str, typer.Option("--name", help="Unique, such as the pod's name.")],
    grace: Grace = "10m",
    left: Annotated[
        Path | None,
        typer.Option("--left", help="A file to make once it has left.", show_default=False),
    ] = None,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Have the server at URL in the pool for as long as this runs; drain it when this is stopped.

    For servers that something else starts and stops, such as pods that KEDA scales.
    """
    from app import logs
    from app.local.scaled.joined import stay

    logs.configure("INFO")
    with wiring_for(config, data) as wiring, _stopped_by_signals() as stopping:
        found = {one.pool: one for one in wiring.settings.scaling}
        if pool not in found:
            known = ", ".join(sorted(found)) or "none"
            raise UsageError(
                f"pool {pool!r} has no [[scaling]] in the settings; those that do: {known}"
            )
        stay(_roster(wiring), _spec(found[pool], name, url), stopping, seconds(grace))
    if left is not None:
        left.touch()


def _shown(wiring: Wiring, one: ScalingSettings) -> dict[str, Any]:
    from app.domain.autoscale import is_scaled

    serving = [e for e in wiring.endpoints.listed() if is_scaled(e.name, one.pool)]
    wanted = _roster(wiring).wanted(one.pool)
    return {
        "pool": one.pool,
        "target": one.target,
        "serving": len(serving),
        "wanted": wanted,
        "minimum": one.minimum,
        "maximum": one.maximum,
    }


def _chosen(scaling: tuple[ScalingSettings, ...], pool: str | None) -> list[ScalingSettings]:
    by_process = [one for one in scaling if one.target == "process"]
    chosen = [one for one in by_process if pool is None or one.pool == pool]
    if chosen:
        return chosen
    known = ", ".join(one.pool for one in by_process) or "none"
    what = "no pool" if pool is None else f"pool {pool!r} is not one that"
    raise UsageError(f'{what} is scaled with target = "process"; those that are: {known}')


def _agent(wiring: Wiring, one: ScalingSettings, folder: Path, host: str) -> Agent:
    from app.local.scaled.agent import Agent, Orders

    orders = Orders(
        pool=one.pool,
        kind=one.kind,
        models=one.models,
        max_concurrency=one.max_concurrency,
        command=one.command,
        minimum=one.minimum,
        start_timeout_s=one.start_timeout_s,
        drain_timeout_s=one.drain_timeout_s,
        host=host,
    )
    return Agent(orders, _roster(wiring), folder, wiring.observer)


def _roster(wiring: Wiring) -> Any:
    from app.local.scaled.roster import SharedRoster

    return SharedRoster(wiring.database, wiring.endpoints)


def _spec(one: ScalingSettings, name: str, url: str) -> Any:
    from app.domain.autoscale import scaled_name
    from app.domain.routing import EndpointSpec

    return EndpointSpec(
        name=scaled_name(one.pool, name),
        pool=one.pool,
        kind=one.kind,
        base_url=url.rstrip("/"),
        models=one.models,
        max_concurrency=one.max_concurrency,
    )


def _hide_our_settings() -> None:
    """The servers that we start need none of them, and some hold passwords."""
    for name in [name for name in os.environ if name.startswith("GIVEWAY_")]:
        del os.environ[name]


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
