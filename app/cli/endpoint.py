"""`giveway simulated-endpoint`: a model server to try things on."""

from __future__ import annotations

from typing import Annotated

import typer

from app.errors import MissingPart, UsageError
from app.extras import install_line

PANEL = "Operations"


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("simulated-endpoint")(simulated_endpoint)


def simulated_endpoint(
    host: Annotated[str, typer.Option(help="Where it listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
    places: Annotated[int, typer.Option(min=1, help="Requests that run at a time.")] = 8,
    speed: Annotated[float, typer.Option(help="2 halves all times.")] = 1.0,
    models: Annotated[
        list[str] | None,
        typer.Option(
            help="May be given again, or hold several with commas; default: fake-chat,fake-embed.",
            show_default=False,
        ),
    ] = None,
    scheduling: Annotated[str, typer.Option(help="fcfs or priority.")] = "fcfs",
    ledger: Annotated[bool, typer.Option("--ledger", help="Count every single input.")] = False,
    api_key: Annotated[
        str | None, typer.Option(envvar="GIVEWAY_SIMULATED_API_KEY", help="Ask for this key.")
    ] = None,
    fault: Annotated[
        list[str] | None, typer.Option(metavar="JSON", help="In force from the start.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Makes faults strike alike in every run.")] = 0,
) -> None:
    """Serve OpenAI's API with a simulated engine: real vectors, answers from the prompt.

    Its engine batches like a real one, so that too many requests really slow each other down. It
    prints its address when it is ready; Ctrl-C ends it.
    """
    import orjson

    from app.inference.simulated.faults import fault as read_fault
    from app.inference.simulated.settings import Scheduling, SimulatedSettings

    try:
        from app.inference.simulated.serving import serve
    except ImportError as error:
        raise MissingPart(
            f"the simulated endpoint needs {error.name}; install it with: {install_line('local')}"
        ) from error
    named = [name.strip() for given in models or [] for name in given.split(",") if name.strip()]
    chosen: Scheduling = "priority" if scheduling == "priority" else "fcfs"
    if scheduling != chosen:
        raise UsageError(f"no scheduling {scheduling!r}; known: fcfs, priority")
    try:
        faults = tuple(read_fault(orjson.loads(one)) for one in fault or [])
    except orjson.JSONDecodeError as error:
        raise UsageError(f"--fault: not JSON: {error}") from error
    settings = SimulatedSettings(
        host=host,
        port=port,
        places=places,
        speed=speed,
        models=tuple(named) or ("fake-chat", "fake-embed"),
        scheduling=chosen,
        ledger=ledger,
        api_key=api_key,
        faults=faults,
        seed=seed,
    )
    try:
        serve(settings)
    except OSError as error:
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
