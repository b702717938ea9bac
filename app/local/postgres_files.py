"""The files of the embedded Postgres: made once, its settings written at each start.

The server must own them. As root it has another account, which is let in here.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

from app.errors import Unavailable, UsageError
from app.local.accounts import Account, let_through, run_as

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


def make_ready(folder: Path, binaries: Path, account: Account | None, role: str, word: str) -> None:
    """Make the server's folder if it is not there, for `role` with password `word`.

    Nobody may be working in it.
    """
    if account is not None:
        _admit(account, folder.parent, binaries)
    if not (folder / "PG_VERSION").exists():
        _create(folder, binaries, account, role, word)
    # Nobody works in the folder, so what this names is gone, or is somebody else by now.
    (folder / "postmaster.pid").unlink(missing_ok=True)
    _write_settings(folder, binaries, account)


def _admit(account: Account, data: Path, binaries: Path) -> None:
    """Let the other account reach the data folder and the wheel."""
    let_through(account, binaries)
    let_through(account, data)
    if run_as(account, [binaries / "postgres", "--version"]).returncode != 0:
        _make_readable(binaries.parent)  # installed under a strict umask


def _make_readable(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = stat.S_IMODE(path.stat().st_mode)
            path.chmod(mode | stat.S_IROTH | (stat.S_IXOTH if mode & stat.S_IXUSR else 0))


def _create(folder: Path, binaries: Path, account: Account | None, role: str, word: str) -> None:
    """initdb in a folder beside, renamed when whole: one that was cut off leaves nothing half."""
    beside = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    if folder.exists():
        _remove_empty(folder)
    beside.mkdir(mode=0o700)
    with tempfile.NamedTemporaryFile("w", dir=folder.parent, prefix=".pw-") as file:
        file.write(word)
        file.flush()
        _give(account, beside, Path(file.name))
        made = run_as(
            account,
            [
                binaries / "initdb",
                f"--pgdata={beside}",
                f"--username={role}",
                f"--pwfile={file.name}",
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
    beside.rename(folder)


def _remove_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError as error:
        raise UsageError(
            f"{folder} holds files but no Postgres; move it away, or choose another --data"
        ) from error


def _write_settings(folder: Path, binaries: Path, account: Account | None) -> None:
    path = folder / "postgresql.conf"
    built = run_as(None, [binaries / "pg_config", "--configure"])
    path.write_text(
        _SETTINGS.format(
            shared_memory=_shared_memory(),
            wal_compression="lz4" if "--with-lz4" in built.stdout else "off",
        )
    )
    _give(account, path)


def _give(account: Account | None, *paths: Path) -> None:
    if account is not None:
        for path in paths:
            os.chown(path, account.uid, account.gid)


def _shared_memory() -> str:
    """Containers often have 64 MB of /dev/shm, too little to build an index in parallel."""
    try:
        found = os.statvfs("/dev/shm")  # noqa: S108 -- only asked for its size
    except OSError:
        return "posix"
    return "posix" if found.f_frsize * found.f_blocks >= 2**30 else "mmap"
