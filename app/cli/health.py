"""`giveway health`: whether a worker gets on with its work, judged by the database alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app import clock
from app.cli import render
from app.cli.common import DEFAULT_DATA, Config, Data, JsonFlag, wiring_for

if TYPE_CHECKING:
    from app.services.inspection import PoolView
    from app.wiring import Wiring

PANEL = "Operations"


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(health)


def health(
    queue: Annotated[
        Literal["interactive", "batch", "control"], typer.Argument(help="Whose worker.")
    ],
    as_json: JsonFlag = False,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Say whether the worker of a queue gets on with its work. Exit status 1 if it does not.

    A worker that answers pings may still do nothing, so none is asked. It is what containers'
    health checks call, three times before they believe it: one look may fall between two chunks.
    What waits for an endpoint that is out of service, or for its hours, is no fault of a worker.
    """
    with wiring_for(config, data) as wiring:
        views = wiring.inspection.pools()
        match queue:
            case "control":
                faults = [fault for view in views if (fault := _undecided(view))]
            case "interactive":
                faults = [fault for view in views if (fault := _unanswered(view))]
            case "batch":
                faults = [fault for view in views if (fault := _unclaimed(wiring, view))]
    if as_json:
        render.json_document({"queue": queue, "ok": not faults, "faults": faults})
    else:
        typer.echo("\n".join(faults) if faults else f"{queue}: work gets on")
    if faults:
        raise typer.Exit(render.FAILED)


def _undecided(view: PoolView) -> str | None:
    if view.valid_until is not None and clock.now() <= view.valid_until:
        return None
    return f"pool {view.name}: no decision is in force, so batch stands at its floor"


def _unanswered(view: PoolView) -> str | None:
    if view.interactive_waiting == 0 or view.interactive_in_flight > 0 or not view.in_service:
        return None
    return f"pool {view.name}: {view.interactive_waiting} people wait and nobody is served"


def _unclaimed(wiring: Wiring, view: PoolView) -> str | None:
    if view.batch_in_flight > 0:
        return None
    waiting = wiring.inspection.unclaimed(view.name)
    if not waiting:
        return None
    key = waiting[0].key
    return f"pool {view.name}: job {key} has work, places are free, nothing is claimed"
