"""A RabbitMQ node of our own from Debian's package, beside whatever the system runs."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import until

_SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"


def rabbitmq_missing() -> str | None:
    """Why there can be no node here; None: there can. In CI a missing package is a failure."""
    if Path(_SERVER).exists():
        return None
    if os.environ.get("CI"):
        raise AssertionError("CI must install rabbitmq-server")
    return "Debian's rabbitmq-server is not installed"


@contextmanager
def rabbitmq_at(folder: Path, management: int | None = None) -> Iterator[str]:
    """amqp://guest:guest@127.0.0.1:PORT// of a fresh node, ended by its pid. `management`: the port
    at which its management answers; None: it does not."""
    port, epmd = free_port(), free_port()
    environment = {
        **os.environ,
        "HOME": str(folder),
        "RABBITMQ_NODENAME": f"giveway{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "ERL_EPMD_PORT": str(epmd),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
    }
    (folder / "enabled_plugins").write_text("[].\n")
    if management is not None:
        (folder / "enabled_plugins").write_text("[rabbitmq_management].\n")
        listener = f'-rabbitmq_management listener [{{port,{management}}},{{ip,"127.0.0.1"}}]'
        environment["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"] = listener
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(
            [_SERVER], env=environment, stdout=out, stderr=out, start_new_session=True
        )
    try:
        until(lambda: _answers(port), 60, "RabbitMQ's start")
        yield f"amqp://guest:guest@127.0.0.1:{port}//"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        epmd_at = shutil.which("epmd")
        if epmd_at:
            subprocess.run([epmd_at, "-port", str(epmd), "-kill"], capture_output=True, check=False)


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as connection:
        connection.sendall(b"AMQP\x00\x00\x09\x01")
        return connection.recv(1) != b""
    return False


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
