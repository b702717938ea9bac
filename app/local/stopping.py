"""Stopping a stack: stage by stage, each process asked first and forced after its time."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

from app.clock import monotonic_s
from app.local.events import Ended, Event, Failed, Prepared, StopAsked
from app.local.supervised import Phase, Supervised

_AT_ONCE_S = 3.0
_PREPARING_S = 60.0
"""A preparation is not cut off: it may be making a database."""


def stop_all(
    everyone: Sequence[Supervised], events: SimpleQueue[Event], changed: Callable[[], None]
) -> None:
    """Stop them all. A `StopAsked` among the events means: at once, in no order."""
    at_once = False
    for stage in sorted({one.spec.stop_stage for one in everyone}):
        group = [one for one in everyone if one.spec.stop_stage == stage]
        for one in group:
            if one.is_alive:
                one.phase = Phase.STOPPING
                one.send(one.spec.death_signal if at_once else one.spec.stop_signal)
        changed()
        at_once = _await_end(group, everyone, events, at_once)
        for one in group:
            one.phase = Phase.DONE if one.phase is Phase.DONE else Phase.STOPPED


def _await_end(
    group: Sequence[Supervised],
    everyone: Sequence[Supervised],
    events: SimpleQueue[Event],
    at_once: bool,
) -> bool:
    """Until none of the group has a process. True if a stop at once has been asked for."""
    began_s = monotonic_s()
    forced: set[str] = set()
    while busy := [one for one in group if one.is_alive or one.is_preparing]:
        for one in busy:
            if monotonic_s() < began_s + _patience_s(one, at_once):
                continue
            if one.is_alive and one.spec.name not in forced:
                forced.add(one.spec.name)
                one.kill()
            one.is_preparing = False
        match _next(events):
            case StopAsked() if not at_once:
                at_once, began_s = True, monotonic_s()
                for one in busy:
                    one.send(one.spec.death_signal)
            case Ended(name, run):
                _collect(everyone, name, run)
            case Prepared(name) | Failed(name):
                for one in everyone:
                    one.is_preparing = one.is_preparing and one.spec.name != name
    return at_once


def _patience_s(one: Supervised, at_once: bool) -> float:
    if one.is_preparing:
        return _PREPARING_S
    return _AT_ONCE_S if at_once else one.spec.stop_timeout_s


def _collect(everyone: Sequence[Supervised], name: str, run: int) -> None:
    for one in everyone:
        if one.spec.name == name and one.run == run:
            code = one.collect()
            # What was killed may have left others of its kind, which only `prepare` knows.
            if code == -signal.SIGKILL and one.spec.prepare is not None:
                one.spec.prepare()


def _next(events: SimpleQueue[Event]) -> Event | None:
    try:
        return events.get(timeout=0.1)
    except Empty:
        return None
