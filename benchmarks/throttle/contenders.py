"""The contenders: which processes each starts, how it is asked, how its batch never runs out."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from app.settings import Settings
from app.wiring import Wiring
from app.worker.assembly import make
from benchmarks.throttle import plain
from benchmarks.throttle.corpus import CHAT, EMBED, MICRO_BATCH, Items
from benchmarks.throttle.people import Way
from benchmarks.throttle.stage import Process, Stage
from benchmarks.throttle.targets import Targets

NO_BATCH, DEDICATED = "no batch", "dedicated"
ONE_QUEUE, PRIORITY = "one queue", "priority queue"
PRESSURE, BUDGET = "giveway pressure", "giveway budget"
_FEED_S = 0.04
_TIED_AHEAD = 2
"""Batch tasks a place that wait in a queue which people share, so that workers never idle and
nobody stands behind a whole backfill (which is what happens when all of it is sent at once)."""
_APART_AHEAD = 64


def fixed(workers: int) -> str:
    """The name of two queues with so many batch workers."""
    return f"two queues, {workers} batch"


def is_fixed(name: str) -> bool:
    """Whether it is two queues, the fixed cap."""
    return name.startswith("two queues")


def priority(workers: int) -> str:
    """The name of a priority queue with so many workers, instead of one for each place."""
    return f"{PRIORITY}, {workers} workers"


def named(caps: tuple[int, ...], workers: tuple[int, ...] = ()) -> tuple[str, ...]:
    """All that are compared, in the order in which they run."""
    return (
        *(BUDGET, *map(fixed, caps), PRIORITY, *map(priority, workers)),
        *(PRESSURE, ONE_QUEUE),
    )


@dataclass(frozen=True, slots=True)
class Running:
    """A contender at work. `wiring` None: it is not Giveway."""

    way: Way
    wiring: Wiring | None = None


@contextlib.contextmanager
def running(name: str, stage: Stage, targets: Targets | None, items: int) -> Iterator[Running]:
    """The contender up and, but for `no batch`, its backfill of at least `items` begun."""
    stage.clean()
    if name in (PRESSURE, BUDGET):
        assert targets is not None
        policy = "pressure" if name == PRESSURE else "budget"
        with _giveway(stage, policy, targets, items) as one:
            yield one
        return
    with _plain(name, stage) as one:
        yield one


@contextlib.contextmanager
def _plain(name: str, stage: Stage) -> Iterator[Running]:
    people, batch, options, ahead = "people", "batch", {}, _APART_AHEAD
    places = stage.scene.endpoint.places
    # Of workers that only people use: four a place, as Giveway's own default.
    workers = {people: min(128, 4 * places)}
    if name == ONE_QUEUE:
        people = batch = "work"
        workers, ahead = {"work": places}, _TIED_AHEAD * places
    elif name.startswith(PRIORITY):
        people = batch = "work"
        threads = int(name.split()[2]) if name != PRIORITY else places
        workers, options = {"work": threads}, {"priority": plain.PEOPLE_FIRST}
    elif name == DEDICATED:
        workers = {batch: places}
    elif name != NO_BATCH:
        workers[batch] = int(name.removeprefix("two queues, ").removesuffix(" batch"))
    app = plain.made(stage.broker_url)
    env = {
        "PLAIN_BROKER": stage.broker_url,
        "PLAIN_DATABASE": stage.database_url,
        "PLAIN_ENDPOINT": stage.endpoint_url,
    }
    with contextlib.ExitStack() as stack:
        started = [
            _worker(stage, "benchmarks.throttle.plain", queue, threads, env)
            for queue, threads in workers.items()
        ]
        _await(stack, started)
        if name != NO_BATCH:
            stack.enter_context(
                _fed(stage, app, batch, ahead, by_priority=name.startswith(PRIORITY))
            )
        yield Running(Way(app, "plain.chat", people, options))


@contextlib.contextmanager
def _fed(stage: Stage, app: Any, queue: str, ahead: int, *, by_priority: bool) -> Iterator[None]:
    """Keep `ahead` batch tasks waiting for as long as the block runs."""
    backfill = stage.scene.backfill
    prepared = backfill.prepare(stage.database)
    lists = [queue, f"{queue}{plain.SEPARATOR}{plain.BATCH_LAST}"]
    options = {"priority": plain.BATCH_LAST} if by_priority else {}
    stop = threading.Event()

    def feed() -> None:
        number = 0
        while not stop.is_set():
            waiting = sum(int(stage.valkey.llen(one)) for one in lists)
            for _ in range(ahead - waiting):
                arguments = backfill.arguments(prepared, number)
                app.send_task(backfill.task, args=arguments, queue=queue, **options)
                number += 1
            stop.wait(_FEED_S)

    feeder = threading.Thread(target=feed, name="feeder")
    feeder.start()
    try:
        yield
    finally:
        stop.set()
        feeder.join()


@contextlib.contextmanager
def _giveway(stage: Stage, policy: str, targets: Targets, items: int) -> Iterator[Running]:
    given = _settings(stage, policy, targets)
    env = {f"GIVEWAY_{name.upper()}": json.dumps(value) for name, value in given.items()}
    wiring = Wiring(Settings(**given))
    app = make(wiring)
    wiring.declare()
    if stage.scene.short_output_tokens is not None:
        wiring.steering.tune("main", {"short_output_tokens": stage.scene.short_output_tokens})
    with contextlib.ExitStack() as stack:
        stack.callback(wiring.database.close)
        threads = {
            "interactive": wiring.settings.interactive_threads,
            "batch": wiring.settings.batch_threads,
            "control": 4,
        }
        started = [_worker(stage, "app", queue, many, env) for queue, many in threads.items()]
        schedule = str(stage.folder / "beat")
        arguments = ("celery", "-A", "app", "beat", "--schedule", schedule, "--loglevel", "INFO")
        beat = stage.python("beat", *arguments, env=env)
        _await(stack, started)
        stack.callback(beat.end)
        backfill = stage.scene.backfill
        wiring.submission.submit(backfill.job(), Items(backfill, items))
        wiring.ringing.ring_all()
        yield Running(Way(app, "giveway.interactive.chat", "interactive", {}), wiring)
        _saturated(stage)


def _settings(stage: Stage, policy: str, targets: Targets) -> dict[str, Any]:
    """Giveway's, all others as they come."""
    return {
        "database": {"url": stage.database_url},
        "broker": {"url": stage.broker_url},
        "batch": {"micro_batch_items": MICRO_BATCH},
        "pools": [
            {
                "name": "main",
                "total": stage.scene.endpoint.places,
                "policy": policy,
                "target_p95_ms": targets.whole_ms,
                "first_token_target_ms": targets.first_token_ms,
                "per_token_target_ms": targets.per_token_ms,
            }
        ],
        "endpoints": [
            {
                "name": "simulated",
                "kind": "simulated",
                "base_url": stage.endpoint_url,
                "models": [CHAT, EMBED],
                "max_concurrency": stage.scene.endpoint.places,
            }
        ],
    }


def _saturated(stage: Stage) -> None:
    """A backfill that came to its end would have measured nothing. Raises RuntimeError."""
    with stage.database.transaction() as tx:
        ready = tx.execute(text("SELECT count(*) FROM chunks WHERE state = 'ready'")).scalar_one()
    if not ready:
        raise RuntimeError("the backfill came to its end before the run did: give it more items")


def _worker(stage: Stage, app: str, queue: str, threads: int, env: Mapping[str, str]) -> Process:
    arguments = ("celery", "-A", app, "worker", "-Q", queue, "-n", f"{queue}@bench")
    how = ("-P", "threads", "-c", str(threads), "--without-mingle", "--without-gossip")
    return stage.python(queue, *arguments, *how, "--loglevel", "INFO", env=env)


def _await(stack: contextlib.ExitStack, started: list[Process]) -> None:
    for process in started:
        stack.callback(process.end)
    for process in started:
        process.await_word(" ready.")
