"""Postgres and Valkey on their own, for as long as a `with` lasts; nothing is restarted.

For tests and benchmarks that need a real server but no stack.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from app.clock import monotonic_s
from app.errors import Unavailable
from app.local import leftovers, ports, postgres, valkey
from app.local.spec import ProcessSpec, spawn


@contextlib.contextmanager
def embedded_postgres_at(path: Path, port: int | None = None) -> Iterator[str]:
    """A running Postgres with its files in `path`; yields its URL (database `giveway`)."""
    server = postgres.postgres_server(path, ports.choose(path, "postgres", port))
    with running(postgres.spec(server), log=server.data / "postgres.log"):
        yield server.url
    leftovers.end_postgres(server.folder)


@contextlib.contextmanager
def embedded_valkey_at(path: Path, port: int | None = None) -> Iterator[str]:
    """A running Valkey with its files in `path`; yields its URL (redis://…)."""
    server = valkey.valkey_server(path, ports.choose(path, "valkey", port))
    with running(valkey.spec(server), log=server.data / "valkey.log"):
        yield server.url


@contextlib.contextmanager
def running(spec: ProcessSpec, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`spec` started and ready, stopped at the end. Unavailable if it does not come up."""
    if spec.prepare is not None:
        spec.prepare()
    with log.open("ab") as output, spawn(spec, output.fileno()) as process:
        try:
            _await_ready(spec, process, log)
            yield process
        finally:
            process.send_signal(spec.stop_signal)
            try:
                process.wait(spec.stop_timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()


def _await_ready(spec: ProcessSpec, process: subprocess.Popen[bytes], log: Path) -> None:
    until = monotonic_s() + spec.ready_timeout_s
    while spec.ready is not None and not spec.ready():
        if process.poll() is not None or monotonic_s() > until:
            tail = log.read_text(errors="replace")[-2000:]
            raise Unavailable(f"{spec.name} did not come up:\n{tail}")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.03)
