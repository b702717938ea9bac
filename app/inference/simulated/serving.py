"""The simulated endpoint as a process: its socket, its signals, its end."""

from __future__ import annotations

import gc
import logging
import socket
import sys
from types import FrameType

import uvicorn

from app.inference.simulated.embeddings import embedder
from app.inference.simulated.server import Endpoint
from app.inference.simulated.settings import SimulatedSettings


def serve(settings: SimulatedSettings) -> None:
    """Serve until SIGTERM or SIGINT, which end it at once; open connections are closed.

    Prints one line, `listening on http://HOST:PORT/v1`, when it takes requests and signals. Raises
    OSError where the port is taken.
    """
    endpoint = Endpoint(settings, embedder())
    listener = _listener(settings.host, settings.port)
    host, port = listener.getsockname()[:2]
    # A fault that drops a connection is an error to uvicorn; here it was ordered.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    config = uvicorn.Config(
        endpoint.application(),
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_keep_alive=60,
        server_header=False,
        date_header=False,
        backlog=2_048,
    )
    gc.freeze()  # The model's tables need never be looked at again: no long pauses in a step.
    _Server(config, f"listening on http://{host}:{port}/v1").run(sockets=[listener])
    sys.stdout.flush()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, when_ready: str) -> None:
        super().__init__(config)
        self._when_ready = when_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say that it is ready; uvicorn has its signal handlers in place before this."""
        await super().startup(sockets=sockets)
        print(self._when_ready, flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Leave without waiting for streams, with exit status 0."""
        self.should_exit = True
        self.force_exit = True


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol is named; without it answers are 40 ms late.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2_048)
    except OSError:
        listener.close()
        raise
    return listener
