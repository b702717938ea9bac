"""A stack that goes on after the command that started it: begun, waited for, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from app.clock import monotonic_s
from app.errors import ConfigError, StackNotRunning, Unavailable
from app.local import leftovers, lock
from app.local.options import StackOptions
from app.local.run import LOGS, end_leftovers
from app.local.state import StackState, read_state, running_state
from app.local.supervisor import RELOAD

ERRORS = "background.log"
_LOOK_EVERY_S = 0.05
_STOP_WITHIN_S = 120.0
_STATE_WITHIN_S = 10.0


def start(
    options: StackOptions, on_change: Callable[[StackState], None] = lambda _state: None
) -> StackState:
    """Start a stack; return once all of it is ready. Unavailable, with the reason, if it fails."""
    data = options.data.resolve()
    lock.check_free(data)
    errors = data / LOGS / ERRORS
    with lock.keeping(data):
        errors.parent.mkdir(parents=True, exist_ok=True)
        file = errors.open("wb")
    with file:
        process = subprocess.Popen(
            [sys.executable, "-m", "app.local.run", options.as_json()],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        state = _await_ready(process, data, on_change)
    except BaseException:
        process.terminate()
        process.wait()
        raise
    # Where we live on (a demo, a test), its end is noticed and leaves no zombie.
    threading.Thread(target=process.wait, daemon=True).start()
    return state


def restart(
    data: Path, on_change: Callable[[StackState], None] = lambda _state: None
) -> StackState:
    """Let the stack on this folder start anew what reads settings, its servers left as they are;
    return once all of it is ready again. StackNotRunning; ConfigError: the settings are wrong, and
    everything runs on as before; Unavailable: something did not come up."""
    before = running_state(data)
    if before is None:
        raise StackNotRunning(f"no stack runs on {data}; start one with: giveway up")
    os.kill(before.supervisor.pid, RELOAD)
    seen = before
    while True:
        state = running_state(data)
        if state is None:
            raise Unavailable(f"the stack ended while it was restarted; see {data / LOGS}")
        if state != seen:
            seen = state
            on_change(state)
        if state.reloads > before.reloads:
            if state.refused is not None:
                raise ConfigError(f"{state.refused}\nnothing was restarted")
            if state.ready:
                return state
        _pause()


def stop(data: Path) -> bool:
    """Stop the stack on this folder and wait until all of it is gone. False if none ran."""
    state = _settled_state(data)
    supervisor = leftovers.process_of(state.supervisor) if state else None
    if state is not None and supervisor is not None:
        leftovers.end([supervisor], gently=((signal.SIGTERM, _STOP_WITHIN_S),))
    end_leftovers(data)
    return state is not None


def _settled_state(data: Path) -> StackState | None:
    """The state; waited for where a stack has the lock but has not written it yet."""
    until = monotonic_s() + _STATE_WITHIN_S
    while (state := read_state(data)) is None and monotonic_s() < until and lock.is_held(data):
        _pause()
    return state


def _await_ready(
    process: subprocess.Popen[bytes], data: Path, on_change: Callable[[StackState], None]
) -> StackState:
    seen: StackState | None = None
    while True:
        ended = process.poll() is not None
        state = running_state(data)
        if state is not None and state.supervisor.pid == process.pid and state != seen:
            seen = state
            on_change(state)
            if state.ready:
                return state
        if ended:
            raise Unavailable((data / LOGS / ERRORS).read_text(errors="replace").strip())
        _pause()


def _pause() -> None:
    time.sleep(_LOOK_EVERY_S)
