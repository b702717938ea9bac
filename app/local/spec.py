"""What the supervisor has to know about one process, and how it is started."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals

from app.local import child
from app.local.accounts import Account


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process of a stack.

    It is *ready* once `ready` says so, and it has printed a line that matches `ready_line`; where
    neither is given, as soon as it is started, or, with `once`, when it has ended well.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """On top of our own environment."""
    cwd: Path | None = None
    account: Account | None = None
    """Who runs it; None: we do."""

    after: tuple[str, ...] = ()
    """Names of those that must be ready before it is started, each time."""
    prepare: Callable[[], None] | None = None
    """Called before each start, and after a stop that needed force. In a thread."""
    ready: Callable[[], bool] | None = None
    """Asked again and again. In a thread."""
    ready_line: str | None = None
    """A regular expression."""
    ready_timeout_s: float = 30.0
    once: bool = False
    """It does one thing and ends."""

    stop_stage: int = 0
    """Those of the lowest stage are stopped first; those of one stage together."""
    stop_signal: Signals = SIGTERM
    stop_timeout_s: float = 10.0
    """After this, SIGKILL."""
    death_signal: Signals = SIGKILL
    """What it gets when the supervisor dies without stopping it, and at a stop at once."""


def spawn(spec: ProcessSpec, stdout: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """Start it in a process group of its own, bound to the calling thread's life.

    Its own group, so that Ctrl-C at the terminal reaches us alone, who stop things in order.
    """
    account = spec.account
    return subprocess.Popen(
        child.command(
            spec.argv,
            spec.death_signal,
            account.uid if account else None,
            account.gid if account else None,
        ),
        env={**os.environ, **spec.env},
        cwd=spec.cwd,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.STDOUT,
        process_group=0,
    )
