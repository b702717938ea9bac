"""One leg: a contender under one load, and everything that was seen of both sides."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import psutil
from sqlalchemy import text

from app.domain.throttle.decide import limit_now
from app.storage.limit_store import LimitStore
from app.wiring import Wiring
from benchmarks.throttle.contenders import Running
from benchmarks.throttle.loads import Load, Phase, arrivals
from benchmarks.throttle.people import Answer, Listener, ask_all
from benchmarks.throttle.stage import Stage

BIN_S = 0.5
"""Batch work is counted in bins of so many seconds."""
_SAMPLE_S = 0.1
_AHEAD_S = 0.3


@dataclass(frozen=True, slots=True)
class Sample:
    """Giveway's limit as a claim would see it, and batch requests in flight (live leases)."""

    at_s: float
    limit: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class Leg:
    """Times are seconds since the warm-up's end. `items` are of each bin, one after the other."""

    contender: str
    load: Load
    seed: int
    answers: tuple[Answer, ...]
    items: tuple[int, ...]
    samples: tuple[Sample, ...]
    engine_lost_s: float
    cpu_share: float
    """How busy the machine was, others' work included, 0 to 1."""


def play(name: str, running: Running, stage: Stage, load: Load, seed: int, warm_up_s: float) -> Leg:
    """The load after a warm-up at its first phase's rate, whose people are not counted."""
    early = arrivals(Load("warm-up", (Phase(warm_up_s, load.phases[0].rps),), load.tokens), seed)
    later = [replace(one, due_s=one.due_s + warm_up_s) for one in arrivals(load, seed)]
    lost_s = stage.engine_lost_s()
    psutil.cpu_percent()
    start_at = time.time() + _AHEAD_S
    listener = Listener(stage.broker_url)
    with contextlib.closing(listener), _sampled(running.wiring, start_at + warm_up_s) as samples:
        answers = ask_all(running.way, listener, [*early, *later], start_at)
        time.sleep(max(0.0, start_at + warm_up_s + load.seconds - time.time()))
    counted = [replace(a, due_s=a.due_s - warm_up_s) for a in answers if a.due_s >= warm_up_s]
    return Leg(
        contender=name,
        load=load,
        seed=seed,
        answers=tuple(counted),
        items=_stored(stage, start_at + warm_up_s, load.seconds),
        samples=tuple(s for s in samples if 0 <= s.at_s <= load.seconds),
        engine_lost_s=stage.engine_lost_s() - lost_s,
        cpu_share=psutil.cpu_percent() / 100,
    )


def batch_alone(name: str, stage: Stage, seconds: float, warm_up_s: float, seed: int) -> Leg:
    """Batch without people."""
    lost_s = stage.engine_lost_s()
    psutil.cpu_percent()
    time.sleep(warm_up_s)
    began_at = time.time()
    time.sleep(seconds)
    return Leg(
        contender=name,
        load=Load("nobody", (Phase(seconds, 0.0),)),
        seed=seed,
        answers=(),
        items=_stored(stage, began_at, seconds),
        samples=(),
        engine_lost_s=stage.engine_lost_s() - lost_s,
        cpu_share=psutil.cpu_percent() / 100,
    )


def _stored(stage: Stage, began_at: float, seconds: float) -> tuple[int, ...]:
    """Vectors or results that reached Postgres in each bin: work counts once it is kept."""
    bins = round(seconds / BIN_S)
    with stage.database.transaction() as tx:
        counting = text(_STORED.format(stored=stage.scene.backfill.stored))
        rows = tx.execute(counting, {"began_at": began_at, "bin_s": BIN_S, "bins": bins})
        found = {row.bin: row.n for row in rows}
    return tuple(found.get(at, 0) for at in range(bins))


@contextlib.contextmanager
def _sampled(wiring: Wiring | None, zero_at: float) -> Iterator[list[Sample]]:
    """Giveway's limit and leases, ten times a second, for as long as the block runs."""
    samples: list[Sample] = []
    if wiring is None:
        yield samples
        return
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(_SAMPLE_S):
            for pool in wiring.pools.by_name.values():
                with wiring.database.transaction() as tx:
                    row = LimitStore(tx).read(pool.name)
                    occupancy = LimitStore(tx).occupancy(pool.name)
                if row is None:
                    continue
                people = occupancy.interactive_total + occupancy.queued
                limit = limit_now(row.state, people, pool.bounds, row.now)
                samples.append(Sample(time.time() - zero_at, limit, occupancy.batch_total))

    sampler = threading.Thread(target=sample, name="sampler")
    sampler.start()
    try:
        yield samples
    finally:
        stop.set()
        sampler.join()


_STORED = """
    SELECT CAST(floor((extract(epoch FROM at) - :began_at) / :bin_s) AS int) AS bin,
           count(*) AS n
    FROM ({stored}) AS kept
    WHERE at >= to_timestamp(:began_at) AND at < to_timestamp(:began_at + :bin_s * :bins)
    GROUP BY 1
"""
