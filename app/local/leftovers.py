"""Ending processes that an earlier run left behind, and only those.

A pid alone proves nothing: it may have been given to somebody else. A process is known by its pid
together with the moment it was created, and a server of Postgres by the data folder it works in.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from app.clock import monotonic_s

# The same process reads back a moment that differs in the last digits at most.
_SAME_MOMENT_S = 0.05
_GONE = (psutil.NoSuchProcess, psutil.ZombieProcess)


@dataclass(frozen=True, slots=True)
class Birth:
    """A process, told from any other that is given the same pid."""

    pid: int
    created_at: float
    """Seconds since the epoch, as psutil reads it."""


def birth_of(pid: int) -> Birth | None:
    """Who has this pid now; None for nobody."""
    try:
        return Birth(pid, psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return None


def process_of(birth: Birth) -> psutil.Process | None:
    """The process if it still lives; None also where its pid was reused, or it is a zombie."""
    try:
        process = psutil.Process(birth.pid)
        if abs(process.create_time() - birth.created_at) > _SAME_MOMENT_S:
            return None
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
    except _GONE:
        return None
    return process


def postgres_processes(folder: Path) -> list[psutil.Process]:
    """Every server process, postmaster or backend, that works in this data folder."""
    resolved = str(folder.resolve())
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.name().startswith("postgres") and process.cwd() == resolved:
                found.append(process)
    return found


def end(
    processes: Iterable[psutil.Process],
    gently: Sequence[tuple[signal.Signals, float]] = ((signal.SIGTERM, 3.0),),
) -> None:
    """End them: each signal with seconds to heed it, then SIGKILL. Returns when all are gone."""
    alive = list(processes)
    for number, wait_s in (*gently, (signal.SIGKILL, 10.0)):
        for process in alive:
            with contextlib.suppress(*_GONE, ProcessLookupError):
                process.send_signal(number)
        alive = still_alive(alive, within_s=wait_s)
        if not alive:
            return


def still_alive(processes: Iterable[psutil.Process], within_s: float) -> list[psutil.Process]:
    """Those that have not ended within that time.

    A zombie has ended: in a container whose first process collects nobody, it stays for ever.
    """
    until = monotonic_s() + within_s
    alive = list(processes)
    while alive := [process for process in alive if not _has_ended(process)]:
        if monotonic_s() >= until:
            break
        time.sleep(0.02)
    return alive


def end_postgres(folder: Path) -> None:
    """End every server process that still works in this data folder. None is left on return."""
    end(postgres_processes(folder), gently=((signal.SIGQUIT, 3.0),))


def _has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
