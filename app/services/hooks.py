"""Running a command of the operator's own: without a shell, for a limited time."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from app.logs import masked

FAILED, TIMED_OUT, NOT_FOUND = "hook_failed", "hook_timed_out", "hook_not_started"
_SAID = 300


@dataclass(frozen=True, slots=True)
class Told:
    """How it ended: `code` None is well. `said`: the end of what it wrote, for the log only."""

    code: str | None = None
    status: int | None = None
    said: str = ""


def run_hook(command: Sequence[str], timeout_s: float) -> Told:
    """Run `command` to its end. It has our environment, and nothing on standard input."""
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Told(TIMED_OUT)
    except OSError as error:
        return Told(NOT_FOUND, said=error.strerror or "")
    if done.returncode == 0:
        return Told()
    return Told(FAILED, done.returncode, masked(done.stdout.decode(errors="replace")[-_SAID:]))
