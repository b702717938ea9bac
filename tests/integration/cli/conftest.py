"""The command line on a real database, a real broker and a simulated endpoint."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes import Processes
from tests.rig import MakeRig, Rig
from tests.served import Served

Write = Callable[..., str]
REFUSED = "redis://:SECRET@127.0.0.1:1/0"
"""A broker that is down."""


@pytest.fixture
def stack(
    tmp_path: Path,
    migrated_url: str,
    endpoint: Served,
    rig: MakeRig,
    monkeypatch: pytest.MonkeyPatch,
) -> Rig:
    """The environment of a stack whose broker is down; its work is done by hand."""
    settings = Processes(tmp_path, migrated_url, REFUSED, endpoint.url).environment
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return rig()


@pytest.fixture
def knocks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """Who is knocked at to see whether anybody listens, and for how many seconds at most."""
    seen: list[tuple[str, float]] = []
    connect = socket.create_connection

    def knock(address: tuple[str, int], timeout: float, *more: Any, **named: Any) -> socket.socket:
        seen.append((f"{address[0]}:{address[1]}", timeout))
        return connect(address, timeout, *more, **named)

    monkeypatch.setattr(socket, "create_connection", knock)
    return seen


@pytest.fixture
def docs(tmp_path: Path) -> Write:
    """Writes docs.jsonl with so many items and, after them, these raw lines; its name."""

    def write(count: int = 120, *raw: str, name: str = "docs.jsonl", word: str = "text") -> str:
        items = [{"id": f"d{n}", "text": f"{word} number {n}"} for n in range(count)]
        lines = [json.dumps(item) for item in items]
        (tmp_path / name).write_text("\n".join([*lines, *raw]) + "\n")
        return name

    return write
