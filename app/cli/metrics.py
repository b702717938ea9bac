"""`giveway metrics`: what Prometheus reads, printed once or served."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from app.cli.common import DEFAULT_DATA, Config, Data, wiring_for
from app.errors import UsageError

PANEL = "Operations"


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(metrics)


def metrics(
    serve: Annotated[
        bool, typer.Option("--serve", help="Answer /metrics until stopped.", show_default=False)
    ] = False,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one.")] = 9464,
    config: Config = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Print what Prometheus reads, or serve it.

    Everything is asked of the database at each scrape, so one such process is enough for all
    machines. Labels are pools and endpoints, never jobs or tenants.
    """
    with wiring_for(config, data) as wiring:
        if not serve:
            typer.echo(wiring.exposition.page().decode(), nl=False)
            return
        try:
            server, thread = wiring.exposition.serve(host, port)
        except OSError as error:
            raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}") from error
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        typer.echo(f"metrics on http://{host}:{server.server_port}/metrics")
        try:
            thread.join()
        except KeyboardInterrupt:
            typer.echo("stopping")
        finally:
            server.shutdown()
            server.server_close()
            thread.join(5)
