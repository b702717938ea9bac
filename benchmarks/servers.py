"""Postgres and Valkey of a benchmark's own, and a folder for what it writes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from app.local.bare import embedded_postgres_at, embedded_valkey_at


@dataclass(frozen=True, slots=True)
class Servers:
    """Where they are. `logs` is a folder."""

    database_url: str
    broker_url: str
    logs: Path


@contextlib.contextmanager
def servers() -> Iterator[Servers]:
    """Both up, empty; ended and removed with the block."""
    with contextlib.ExitStack() as stack:
        path = TemporaryDirectory(prefix="giveway-bench-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(path)).resolve()
        folder.chmod(0o755)  # As root, Postgres runs under another account.
        for name in ("postgres", "valkey", "logs"):
            (folder / name).mkdir()
        yield Servers(
            stack.enter_context(embedded_postgres_at(folder / "postgres")),
            stack.enter_context(embedded_valkey_at(folder / "valkey")),
            folder / "logs",
        )
