"""One process under the supervisor: its present run, and the threads that watch it.

    WAITING ─► STARTING ─► RUNNING ─► (once: DONE)
       ▲           │           │
       └ RESTARTING ◄──────────┘          any ─► STOPPING ─► STOPPED

A *run* is one life of the process. Events carry its number, so that late ones about an earlier run
are told from those about the present one.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from enum import StrEnum
from queue import SimpleQueue

from app.clock import monotonic_s
from app.local.events import Ended, Event, Failed, Prepared, Ready
from app.local.leftovers import Birth, birth_of
from app.local.output import Output
from app.local.spec import ProcessSpec, spawn
from app.local.state import ProcessState

_ASK_EVERY_S = 0.04
_LONGEST_LINE = 64_000


class Phase(StrEnum):
    """Where it stands; the words of `giveway status`."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    DONE = "done"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Supervised:
    """Only the supervisor's own thread calls these methods."""

    def __init__(self, spec: ProcessSpec, output: Output, events: SimpleQueue[Event]) -> None:
        self.spec = spec
        self.phase = Phase.WAITING
        self.run = 0
        self.due_at_s = 0.0
        self.deaths = 0
        """Quick ones, in a row."""
        self.was_up = False
        self.is_preparing = False
        self.leaves_for: ProcessSpec | None = None
        """What it is started as once the process that was asked to leave has ended."""
        self.is_leaving = False
        self.kill_at_s: float | None = None
        """When a process that was asked to leave is forced to."""
        self._restarts = 0
        self._output = output
        self._events = events
        self._process: subprocess.Popen[bytes] | None = None
        self._birth: Birth | None = None
        self._up_at_s: float | None = None
        self._reader: threading.Thread | None = None

    @property
    def is_up(self) -> bool:
        """Whether those that come after it may start."""
        return self.phase in (Phase.RUNNING, Phase.DONE)

    @property
    def is_alive(self) -> bool:
        """Whether there is a process that was not collected yet."""
        return self._process is not None

    def state(self) -> ProcessState:
        """How it is, for others to read."""
        return ProcessState(self.spec.name, self.phase.value, self._birth, self._restarts)

    def begin(self) -> None:
        """Prepare it in a thread, then start it (the supervisor does, at `Prepared`)."""
        self.phase = Phase.STARTING
        self.is_preparing = True
        self._in_thread(self._prepare, self.run)

    def start(self) -> None:
        """Start the process and watch it."""
        self.is_preparing = False
        try:
            process = spawn(self.spec)
        except OSError as error:
            self._events.put(Failed(self.spec.name, f"cannot be started: {error}", self.run))
            return
        self._process, self._birth = process, birth_of(process.pid)
        over, line_seen = threading.Event(), threading.Event()
        self._reader = self._in_thread(self._read, process, line_seen)
        self._in_thread(self._wait, process, over, self.run)
        if not self.spec.once:
            self._in_thread(self._ask, over, line_seen, self.run)

    def came_up(self) -> None:
        """It is ready."""
        self.phase, self.was_up, self._up_at_s = Phase.RUNNING, True, monotonic_s()

    def up_for_s(self) -> float:
        """Seconds since it came up; 0 if it has not."""
        return 0.0 if self._up_at_s is None else monotonic_s() - self._up_at_s

    def restart_at(self, due_at_s: float) -> None:
        """Start it again then."""
        self.phase, self.due_at_s, self._up_at_s = Phase.RESTARTING, due_at_s, None
        self._restarts += 1

    def send(self, number: signal.Signals) -> None:
        """A signal to the process, if there is one."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def leave_for(self, spec: ProcessSpec) -> None:
        """Start it anew as `spec`, once the present process has ended as it was asked to."""
        if self._process is None:
            self.spec = spec
            if self.phase is Phase.DONE:
                self.phase, self.due_at_s = Phase.WAITING, 0.0
            return
        self.leaves_for = spec
        self.leave()

    def leave(self) -> bool:
        """Ask the process to end; whether there is none."""
        if self._process is None:
            return True
        self.is_leaving = True
        self.phase, self.kill_at_s = Phase.STOPPING, monotonic_s() + self.spec.stop_timeout_s
        self.send(self.spec.stop_signal)
        return False

    def came_back(self, spec: ProcessSpec) -> None:
        """The process that was asked to leave has ended: start it as `spec`."""
        self.spec, self.leaves_for, self.kill_at_s = spec, None, None
        self.is_leaving = False
        self.phase, self.due_at_s, self.deaths, self._up_at_s = Phase.WAITING, 0.0, 0, None

    def kill(self) -> None:
        """SIGKILL to it and all in its process group."""
        if self._process is not None:
            _kill_group(self._process.pid)

    def collect(self) -> int:
        """After it ended: its exit status; whatever it left in its process group is killed."""
        if self._process is None:
            return 0
        code = self._process.wait()
        _kill_group(self._process.pid)
        if self._reader is not None:
            self._reader.join(0.5)
        self._process = self._birth = None
        self.run += 1
        return code

    def _in_thread(self, act: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=act, args=arguments, daemon=True)
        thread.start()
        return thread

    def _prepare(self, run: int) -> None:
        try:
            if self.spec.prepare is not None:
                self.spec.prepare()
        except Exception as error:  # noqa: BLE001 -- told to whoever waits for it
            self._events.put(Failed(self.spec.name, f"cannot be prepared: {error}", run))
        else:
            self._events.put(Prepared(self.spec.name, run))

    def _read(self, process: subprocess.Popen[bytes], line_seen: threading.Event) -> None:
        awaited = re.compile(self.spec.ready_line) if self.spec.ready_line else None
        if process.stdout is None:
            return
        with process.stdout as stream:
            while raw := stream.readline(_LONGEST_LINE):
                text = raw.decode(errors="replace").rstrip("\r\n")
                self._output.line(self.spec.name, text)
                if awaited is not None and awaited.search(text):
                    line_seen.set()

    def _wait(self, process: subprocess.Popen[bytes], over: threading.Event, run: int) -> None:
        process.wait()
        over.set()
        self._events.put(Ended(self.spec.name, run))

    def _ask(self, over: threading.Event, line_seen: threading.Event, run: int) -> None:
        until = monotonic_s() + self.spec.ready_timeout_s
        while not over.is_set():
            lines_fit = self.spec.ready_line is None or line_seen.is_set()
            if lines_fit and (self.spec.ready is None or self.spec.ready()):
                self._events.put(Ready(self.spec.name, run))
                return
            if monotonic_s() > until:
                why = f"was not ready within {self.spec.ready_timeout_s:g} s"
                self._events.put(Failed(self.spec.name, why, run))
                return
            over.wait(_ASK_EVERY_S)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
