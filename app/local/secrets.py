"""Passwords of the embedded stack: made once for a data folder, kept in files of mode 0600."""

from __future__ import annotations

import os
import secrets as chance
from pathlib import Path

from app.errors import ConfigError

FOLDER = "secrets"


def secret_path(data: Path, name: str) -> Path:
    """Where the password called `name` is kept."""
    return data / FOLDER / name


def secret(data: Path, name: str) -> str:
    """The password called `name`; made on first use. Letters and digits, so that it fits any URL.

    Two processes that ask at once get the same one.
    """
    path = secret_path(data, name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        _create(path, chance.token_hex(16))
    word = path.read_text(encoding="ascii").strip()
    if not word:
        raise ConfigError(f"{path} is empty; put the password back, or delete the data folder")
    path.chmod(0o600)
    return word


def _create(path: Path, word: str) -> None:
    """Write it beside and link it into place: nobody reads half a password, and the first wins."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{chance.token_hex(4)}")
    descriptor = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(word)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(beside, path)
        except FileExistsError:
            return
    finally:
        beside.unlink(missing_ok=True)
