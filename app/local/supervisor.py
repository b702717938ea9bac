"""Runs the processes of a stack: starts them in order, restarts what dies, stops them in order.

One thread decides: the one that calls `run`. It also starts every process, since each is bound to
the life of the thread that started it. What may block (reading lines, waiting for an end, asking
whether something is ready) has threads of its own, which only put events into a queue.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType

from app.clock import monotonic_s
from app.errors import Unavailable
from app.local.events import Ended, Event, Failed, Prepared, Ready, ReloadAsked, StopAsked
from app.local.output import Outputs
from app.local.plan import Change
from app.local.restarts import deaths_in_row, delay_s
from app.local.spec import ProcessSpec
from app.local.state import ProcessState
from app.local.stopping import stop_all
from app.local.supervised import Phase, Supervised

NAME = "stack"
"""Under which the supervisor itself speaks."""
RELOAD = signal.SIGUSR1
"""Starts anew what reads settings."""


class Supervisor:
    """Keeps `specs` running until it is told to stop, or until one of them cannot be kept up."""

    def __init__(
        self,
        specs: Sequence[ProcessSpec],
        output: Outputs,
        on_change: Callable[[tuple[ProcessState, ...], bool], None] = lambda _states, _ready: None,
        replan: Callable[[], Change] = Change,
    ) -> None:
        """`on_change` is told how each process is, and whether all of them have been up since the
        start or the last reload. `replan` says what a reload changes.
        """
        self._output = output
        self._on_change = on_change
        self._replan = replan
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._all = {spec.name: Supervised(spec, output, self._events) for spec in specs}
        self._was_ready = False
        _check_order(specs)

    def run(self) -> None:
        """Until stopped. Unavailable, with the last lines, if a process could not be kept up."""
        with _signals_ask_to_stop(self._events):
            try:
                self._keep_up()
            finally:
                stop_all(list(self._all.values()), self._events, self._changed)
                self._changed()

    def stop(self) -> None:
        """Ask it to stop; asked twice, it stops at once. From any thread or signal handler."""
        self._events.put(StopAsked())

    def reload(self) -> None:
        """Ask it to start anew what reads settings. From any thread or signal handler."""
        self._events.put(ReloadAsked())

    def _keep_up(self) -> None:
        while True:
            self._start_what_can()
            self._changed()
            match self._next():
                case StopAsked():
                    self._output.line(NAME, "stopping; once more to stop at once")
                    return
                case ReloadAsked():
                    self._reload()
                case Prepared(name):
                    self._all[name].start()
                case Ready(name):
                    self._all[name].came_up()
                case Failed(name, why):
                    self._failed(self._all[name], why)
                case Ended(name):
                    self._ended(self._all[name])
                case None:
                    pass

    def _start_what_can(self) -> None:
        for one in self._all.values():
            due = one.phase in (Phase.WAITING, Phase.RESTARTING) and one.due_at_s <= monotonic_s()
            if due and all(self._all[name].is_up for name in one.spec.after):
                one.begin()

    def _reload(self) -> None:
        """Those that change leave in order and come back; the others stay as they are."""
        found = self._replan()
        for spec in found.anew:
            if spec.name in self._all:
                self._all[spec.name].leave_for(spec)
            else:
                self._all[spec.name] = Supervised(spec, self._output, self._events)
            self._output.line(NAME, f"{spec.name} is started anew, with the settings as they are")
        for name in found.gone:
            self._output.line(NAME, f"{name} is wanted no more")
            if self._all[name].leave():
                del self._all[name]
        self._was_ready = self._was_ready and not found.anew

    def _force(self) -> None:
        """Kill what was asked to leave and has had its time."""
        for one in self._all.values():
            if one.kill_at_s is not None and one.kill_at_s <= monotonic_s():
                one.kill_at_s = None
                one.kill()

    def _next(self) -> Event | None:
        """The next event that is still about a present process; None when something falls due."""
        self._force()
        due = [one.due_at_s for one in self._all.values() if one.phase is Phase.RESTARTING]
        due += [one.kill_at_s for one in self._all.values() if one.kill_at_s is not None]
        wait_s = max(0.0, min(due) - monotonic_s()) if due else None
        # A restart may also wait for another process: then look again a little later.
        wait_s = wait_s if wait_s is None or wait_s > 0 else 0.05
        try:
            event = self._events.get(timeout=wait_s)
        except Empty:
            return None
        if isinstance(event, StopAsked | ReloadAsked) or event.run == self._all[event.name].run:
            return event
        return None

    def _failed(self, one: Supervised, why: str) -> None:
        """It cannot be started, or does not become ready: fatal at first, a death later."""
        one.is_preparing = False
        if not one.was_up:
            raise self._unavailable(one, why)
        self._output.line(NAME, f"{one.spec.name} {why}")
        if one.is_alive:
            one.kill()  # and it will be reported as ended
        else:
            self._died(one, why)

    def _ended(self, one: Supervised) -> None:
        code = one.collect()
        if one.leaves_for is not None:
            one.came_back(one.leaves_for)
        elif one.is_leaving:
            del self._all[one.spec.name]
        elif not one.spec.once:
            self._died(one, _meaning(code))
        elif code == 0:
            one.phase = Phase.DONE
        else:
            raise self._unavailable(one, f"failed ({_meaning(code)})")

    def _died(self, one: Supervised, how: str) -> None:
        one.deaths = deaths_in_row(one.deaths, one.up_for_s())
        wait_s = delay_s(one.deaths)
        if wait_s is None:
            raise self._unavailable(one, f"died {one.deaths} times in a row ({how})")
        when = f"in {wait_s:g} s" if wait_s else "now"
        self._output.line(NAME, f"{one.spec.name} died ({how}); restarting it {when}")
        one.restart_at(monotonic_s() + wait_s)

    def _unavailable(self, one: Supervised, why: str) -> Unavailable:
        tail = self._output.tail(one.spec.name)
        last = "\n".join(f"  {line}" for line in tail)
        return Unavailable(
            f"{one.spec.name} {why}" + (f"; its last lines:\n{last}" if tail else "")
        )

    def _changed(self) -> None:
        self._was_ready = self._was_ready or all(one.is_up for one in self._all.values())
        self._on_change(tuple(one.state() for one in self._all.values()), self._was_ready)


@contextmanager
def _signals_ask_to_stop(events: SimpleQueue[Event]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread only
        return

    def ask(_number: int, _frame: FrameType | None) -> None:
        events.put(StopAsked())  # SimpleQueue.put may be called in a signal handler

    def ask_anew(_number: int, _frame: FrameType | None) -> None:
        events.put(ReloadAsked())

    before = {
        number: signal.signal(number, ask)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    before[RELOAD] = signal.signal(RELOAD, ask_anew)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_order(specs: Sequence[ProcessSpec]) -> None:
    """Each may only come after ones named before it, so that there are no circles."""
    seen: set[str] = set()
    for spec in specs:
        missing = sorted(set(spec.after) - seen)
        if missing:
            raise ValueError(f"{spec.name} comes after {missing[0]}, which is not listed before it")
        if spec.name in seen:
            raise ValueError(f"two processes are called {spec.name}")
        seen.add(spec.name)


def _meaning(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
