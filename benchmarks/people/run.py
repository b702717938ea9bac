"""One run: each contender started, its legs played, its figures taken."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import psutil

from benchmarks.people.contenders import Missing, Running, round_trip_ms, running, through
from benchmarks.people.figures import Run, run
from benchmarks.people.openload import due, play
from benchmarks.people.plan import WARM_UP_S, Leg
from benchmarks.people.stage import Stage
from benchmarks.throttle.stage import ROOT

_SETTLE_S = 1.0


def play_all(
    legs: Sequence[Leg], stage: Stage, seed: int, tell: Callable[[str], None]
) -> tuple[list[Run], list[str]]:
    """Figures of all legs, in their order; and what could not be run, and why."""
    runs: list[Run] = []
    missing: list[str] = []
    for (name, far), group in groupby(legs, lambda leg: (leg.contender, leg.needs_proxy)):
        url = through(stage.database_url, stage.proxy.port) if far else stage.database_url
        stage.proxy.stand_away(0.0)  # A stack starts next to its database.
        its = list(group)
        try:
            with running(name, stage, url) as one:
                for leg in its:
                    runs.append(_played(leg, one, stage, url, seed))
                    tell(_line(runs[-1]))
        except Missing as error:
            missing.append(f"{name}: {error}")
            tell(missing[-1])
        except Exception as error:  # noqa: BLE001 - one that fails voids itself, not the others
            missing.append(f"{name}: {type(error).__name__}: {error}")
            tell(missing[-1])
    return runs, missing


def _played(leg: Leg, one: Running, stage: Stage, url: str, seed: int) -> Run:
    if leg.distance_ms is not None:
        stage.proxy.stand_away(leg.distance_ms)
    rtt_ms = round_trip_ms(url) if one.client is not None else None
    time.sleep(_SETTLE_S)
    before: list[float] = []
    turns_before: list[int] = []

    def mark() -> None:
        before.extend(_cpu(one))
        turns_before.append(_turns(one, stage))

    # The same people for every contender at this rate.
    dues = due(leg.rps, WARM_UP_S, leg.seconds, seed)
    with _busy(leg):
        played = play(one.start, dues, WARM_UP_S, mark)
    caller_s, servers_s, all_s = (now - was for now, was in zip(_cpu(one), before, strict=True))
    return run(
        leg.contender,
        leg.rps,
        leg.seconds,
        played.waits_ms,
        played.late_ms,
        cpu_s=servers_s if one.servers else caller_s,
        caller_cpu_s=caller_s,
        all_cpu_s=caller_s + all_s,
        database_rtt_ms=rtt_ms,
        round_trips=_turns(one, stage) - turns_before[0] if leg.needs_proxy else None,
        cores_busy=leg.busy,
    )


def _cpu(one: Running) -> tuple[float, float, float]:
    """Seconds of CPU so far: of this process, of those who serve, of all processes of it."""
    here = psutil.Process().cpu_times()
    return here.user + here.system, _seconds(one.servers), _seconds(one.all)


def _seconds(processes: Sequence[psutil.Process]) -> float:
    times = [one.cpu_times() for one in processes]
    return float(sum(one.user + one.system for one in times))


def _turns(one: Running, stage: Stage) -> int:
    if one.client is None:
        return 0
    told = stage.proxy.round_trips()
    return sum(count for name, count in told.items() if name.startswith(one.client))


@contextlib.contextmanager
def _busy(leg: Leg) -> Iterator[None]:
    """Somebody else's work on every core, where the leg wants it; it ends with the leg."""
    if not leg.busy:
        yield
        return
    seconds = str(leg.seconds + WARM_UP_S + 1)
    others = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.people.busy", seconds],
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
        )
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for other in others:
            other.terminate()
            other.wait()


def _line(one: Run) -> str:
    away = (
        "" if one.round_trips_per_request is None else f", database {one.database_rtt_ms} ms away"
    )
    busy = ", busy cores" if one.cores_busy else ""
    turns = (
        ""
        if one.round_trips_per_request is None
        else f", {one.round_trips_per_request} round trips"
    )
    return (
        f"  {one.contender} {one.rps:g}/s{away}{busy}: {one.ok} of {one.sent} ok, "
        f"P50 {one.p50_ms}, P95 {one.p95_ms} ms, {one.cpu_ms_per_request} ms of CPU a request "
        f"(caller {one.caller_cpu_ms_per_request}){turns}"
    )
