"""One process that serves an endpoint, from its start to its end.

STARTING ── it answers, and is registered ──► SERVING ── drained ──► LEAVING ──► ended
    └─────────────── not wanted any more, or it never answers ──────────────────────┘
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from app.clock import monotonic_s
from app.local.leftovers import Birth, birth_of
from app.local.spec import ProcessSpec, spawn

_END_S = 10.0


class Phase(StrEnum):
    """Where it stands."""

    STARTING = "starting"
    SERVING = "serving"
    LEAVING = "leaving"


@dataclass(slots=True)
class Member:
    """A process of ours. `name` is its endpoint's; `birth` tells it from any other process."""

    name: str
    port: int
    url: str
    process: subprocess.Popen[bytes]
    birth: Birth | None
    phase: Phase = Phase.STARTING
    started_s: float = field(default_factory=monotonic_s)
    leaving_s: float = 0.0

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self.process.poll() is not None

    def end(self) -> None:
        """TERM to its process group, then KILL; on return it is gone."""
        self._send(signal.SIGTERM)
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._send(signal.SIGKILL)
            self.process.wait()
        self._send(signal.SIGKILL)  # whatever it left in its group

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


def started(name: str, command: Sequence[str], host: str, port: int, log: Path) -> Member:
    """Start `command` with {port} and {host} filled in. OSError: it cannot be started.

    Bound to the life of the calling thread: where that is killed, the process ends with it.
    """
    argv = tuple(word.replace("{port}", str(port)).replace("{host}", host) for word in command)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        process = spawn(ProcessSpec(name=name, argv=argv), stdout=out.fileno())
    return Member(name, port, f"http://{host}:{port}", process, birth_of(process.pid))
