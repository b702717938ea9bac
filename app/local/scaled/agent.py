"""Keeps as many endpoint processes of one pool as are wanted: starts, registers, drains, ends.

What is wanted stands in the database. While that is away, everything stays as it is.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from pathlib import Path

from app.clock import monotonic_s
from app.domain.autoscale import scaled_name
from app.domain.events import Observer, ScaleFailed
from app.domain.routing import EndpointSpec
from app.errors import DatabaseUnavailable, UsageError
from app.local import ports
from app.local.restarts import QUICK_S, deaths_in_row, delay_s
from app.local.scaled import record
from app.local.scaled.joined import answers
from app.local.scaled.member import Member, Phase, started
from app.local.scaled.record import Entry
from app.local.scaled.roster import Roster
from app.local.scaled.steps import Standing, steps

log = logging.getLogger(__name__)

_AFTER_GIVING_UP_S = 60.0
"""A command that died again and again is tried once more after this."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What the agent of a pool runs, and how patient it is."""

    pool: str
    kind: str
    models: tuple[str, ...]
    max_concurrency: int
    command: tuple[str, ...]
    minimum: int
    start_timeout_s: float
    drain_timeout_s: float
    host: str = ports.HOST


class Agent:
    """One for each pool and machine. `step` is called again and again, from one thread only."""

    def __init__(self, orders: Orders, roster: Roster, folder: Path, observer: Observer) -> None:
        self._orders = orders
        self._roster = roster
        self._folder = folder / orders.pool
        self._observer = observer
        self._members: list[Member] = []
        self._gone: list[Entry] = []
        """Endpoints without a process that everyone may still know of."""
        self._deaths = 0
        self._start_at_s = 0.0

    def begin(self) -> None:
        """End what an earlier agent has left, and have its endpoints forgotten."""
        self._gone = record.end_left(self._folder)

    def step(self) -> None:
        """Once around: who died, who came up, who is wanted, who may go."""
        self._bury()
        try:
            self._forget_gone()
            self._welcome()
            wanted = self._roster.wanted(self._orders.pool)
            self._move_to(self._orders.minimum if wanted is None else wanted)
            self._let_go()
        except DatabaseUnavailable as error:
            log.warning("scaling of pool %s waits: %s", self._orders.pool, error)

    def finish(self, within_s: float) -> None:
        """Drain all, wait at most `within_s` for what they have in flight, and end them."""
        until_s = monotonic_s() + within_s
        try:
            self._bury()
            self._move_to(0)
            while self._members and monotonic_s() < until_s:
                self._let_go()
                self._forget_gone()
                threading.Event().wait(0.1)
        except DatabaseUnavailable as error:
            log.warning("endpoints of pool %s end undrained: %s", self._orders.pool, error)
        for one in self._members:
            one.end()
            self._gone.append(record.entry(one))
        self._members.clear()
        try:
            self._forget_gone()
        except DatabaseUnavailable:
            self._write()  # the next agent has them forgotten

    def _bury(self) -> None:
        """Those that died by themselves."""
        for one in [one for one in self._members if one.has_ended]:
            one.end()
            self._members.remove(one)
            self._gone.append(record.entry(one))
            if one.phase is not Phase.LEAVING:
                lived_s = monotonic_s() - one.started_s
                log.warning("%s ended with status %s", one.name, one.process.returncode)
                self._failed(0.0 if one.phase is Phase.STARTING else lived_s)

    def _welcome(self) -> None:
        for one in [one for one in self._members if one.phase is Phase.STARTING]:
            if answers(one.url):
                self._roster.join(self._spec(one))
                one.phase = Phase.SERVING
                log.info("%s serves at %s", one.name, one.url)
            elif monotonic_s() - one.started_s > self._orders.start_timeout_s:
                log.warning("%s did not answer in time", one.name)
                self._drop(one)
                self._failed(0.0)

    def _move_to(self, wanted: int) -> None:
        now = [Standing(one.name, one.phase) for one in self._members]
        todo = steps(wanted, now)
        by_name = {one.name: one for one in self._members}
        for name in todo.keep:
            self._roster.join(self._spec(by_name[name]))
            by_name[name].phase = Phase.SERVING
        for name in todo.drain:
            self._roster.leave(name)
            by_name[name].phase, by_name[name].leaving_s = Phase.LEAVING, monotonic_s()
            log.info("%s is drained", name)
        for name in todo.end:
            self._drop(by_name[name])
        if todo.start and monotonic_s() >= self._start_at_s:
            for _ in range(todo.start):
                self._start()

    def _let_go(self) -> None:
        """End those that are drained and have nothing in flight any more."""
        for one in [one for one in self._members if one.phase is Phase.LEAVING]:
            late = monotonic_s() - one.leaving_s > self._orders.drain_timeout_s
            if late:
                log.warning("%s took too long to finish; it ends now", one.name)
            # Forgotten first: nobody sends anything to what nobody knows.
            if self._roster.remove(one.name, now=late):
                self._drop(one)
                log.info("%s is gone", one.name)

    def _start(self) -> None:
        taken = [one.port for one in self._members]
        try:
            port = ports.choose(self._folder, self._orders.pool, taken=taken)
            name = scaled_name(self._orders.pool, str(port))
            log_file = self._folder / f"{port}.log"
            one = started(name, self._orders.command, self._orders.host, port, log_file)
        except (OSError, UsageError) as error:
            log.warning("no endpoint of pool %s can be started: %s", self._orders.pool, error)
            self._failed(0.0)
            return
        self._members.append(one)
        self._write()

    def _drop(self, one: Member) -> None:
        one.end()
        self._members.remove(one)
        self._write()

    def _failed(self, lived_s: float) -> None:
        """Later and later, so that a command that cannot work does no harm."""
        self._deaths = deaths_in_row(self._deaths, lived_s if lived_s > QUICK_S else 0.0)
        wait_s = delay_s(self._deaths)
        self._start_at_s = monotonic_s() + (_AFTER_GIVING_UP_S if wait_s is None else wait_s)
        self._observer.saw(
            ScaleFailed(self._orders.pool, len(self._members) + 1, "start_failed", None)
        )
        self._write()

    def _forget_gone(self) -> None:
        if not self._gone:
            return
        while self._gone:
            self._roster.remove(self._gone[-1].name, now=True)
            self._gone.pop()
        self._write()

    def _write(self) -> None:
        record.write(self._folder, [*map(record.entry, self._members), *self._gone])

    def _spec(self, one: Member) -> EndpointSpec:
        orders = self._orders
        return EndpointSpec(
            name=one.name,
            pool=orders.pool,
            kind=orders.kind,
            base_url=f"{one.url}/v1",
            models=orders.models,
            max_concurrency=orders.max_concurrency,
        )


def run(agents: list[Agent], stopping: threading.Event, every_s: float, grace_s: float) -> None:
    """Until `stopping`; then everything is drained and ended. In the thread that starts them."""
    for agent in agents:
        agent.begin()
    try:
        while not stopping.wait(every_s):
            for agent in agents:
                agent.step()
    finally:
        for agent in agents:
            agent.finish(grace_s)
