"""Ending processes that an earlier run left behind, and only those.

A pid alone proves nothing: it may have been given to somebody else. A process is known by its pid
together with the moment it was created, and a server of Postgres by the data folder it works in.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

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
        _, alive = psutil.wait_procs(alive, timeout=wait_s)
        alive = [process for process in alive if not _is_zombie(process)]
        if not alive:
            return


def end_postgres(folder: Path) -> None:
    """End every server process that still works in this data folder. None is left on return."""
    end(postgres_processes(folder), gently=((signal.SIGQUIT, 3.0),))


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
