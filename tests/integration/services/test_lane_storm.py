"""Several lanes and batch on one small pool, exact together; lanes that are killed or stopped."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from app.services.claiming import Claimed, claim
from app.storage.lease_store import LeaseStore
from app.storage.limit_store import LimitStore
from tests.counting import Counting, counting
from tests.processes import until
from tests.rig import MakeRig, Rig

PLACES = 8
LANES = 4


def given(url: str, server: Counting, places: int, **more: Any) -> dict[str, Any]:
    """Settings of a pool of so many places at `server`."""
    there = {"name": "sim", "base_url": server.url, "models": ["fake-chat", "fake-embed"]}
    return {
        "database": {"url": url, "connections": 30},
        "endpoints": [{**there, "max_concurrency": places}],
        "pools": [{"name": "main", "total": places, "batch_max": places - 1}],
        "batch": {"chunk_items": 1},
        **more,
    }


class Lane:
    """A process with a lane."""

    def __init__(self, settings: dict[str, Any], **order: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.lanes", json.dumps(settings), json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ready(self) -> Lane:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        return self

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def came_of_it(self) -> Counter[str]:
        assert self.process.stdout is not None
        return Counter(json.loads(self.process.stdout.readline()))

    def end(self) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


@contextlib.contextmanager
def lanes(many: int, settings: dict[str, Any], **order: Any) -> Iterator[list[Lane]]:
    made = [Lane(settings, **order) for _ in range(many)]
    try:
        yield [one.ready() for one in made]
    finally:
        for one in made:
            one.end()


def batch_wants(one: Rig, server: Counting, stop: threading.Event) -> list[threading.Thread]:
    """As many claimers as batch may have, each with a call of a few milliseconds a lease."""
    job = one.submit([f"text {n}" for n in range(4000)], chunk_items=1).job
    pool = one.wiring.pools.named("main")

    def work() -> None:
        while not stop.is_set():
            with one.database.transaction() as tx:
                claimed = claim(tx, job, pool, "w#1", 60)
            if not isinstance(claimed, Claimed):
                stop.wait(0.25)
                continue
            server.enter()
            time.sleep(0.03)
            server.leave()
            with one.database.transaction() as tx:
                LeaseStore(tx).finish(claimed.lease)

    threads = [threading.Thread(target=work) for _ in range(PLACES - 1)]
    for thread in threads:
        thread.start()
    return threads


def asked(
    rig: MakeRig, url: str, *, each: int, rps: int, batch: bool, mutant: str | None = None
) -> tuple[int, Counter[str], Rig]:
    """So many requests a lane: the most in flight at once, what came of them, and the rig.

    All lanes' first groups are out together: somebody holds the pool's row until they wait for it.
    """
    with counting(0.01 if batch else 0.1) as server:
        settings = given(url, server, PLACES)
        one = rig(**{name: value for name, value in settings.items() if name != "database"})
        one.limit(PLACES - 1)
        stop = threading.Event()
        with lanes(LANES, settings, count=each, rps=rps, mutant=mutant) as processes:
            with one.database.transaction() as tx:
                LimitStore(tx).lock("main")
                for process in processes:
                    process.go()
                until(lambda: server.asked or waiting(url) == LANES, 30, "the groups")
            claimers = batch_wants(one, server, stop) if batch else []
            came: Counter[str] = sum((process.came_of_it() for process in processes), Counter())
            stop.set()
            for thread in claimers:
                thread.join(20)
        return server.most, came, one


def waiting(url: str) -> int:
    """Connections that wait for a lock."""
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with psycopg.connect(url) as own:
        row = own.execute(f"{waits} AND datname = current_database()").fetchone()
    assert row is not None
    return int(row[0])


def test_in_a_storm_the_endpoint_never_sees_more_than_its_places(
    rig: MakeRig, migrated_url: str
) -> None:
    most, came, one = asked(rig, migrated_url, each=50, rps=100, batch=True)
    assert most <= PLACES
    assert came == {"ok": LANES * 50}
    states = "SELECT state, count(*) FROM interactive_requests GROUP BY state"
    assert one.rows(states) == [("done", LANES * 50)]


# A place that is kept for somebody may be taken a moment later than the one beside it.
OVERTAKEN = """
    SELECT count(*) FROM interactive_requests first JOIN interactive_requests later
        ON (-first.priority, first.submitted_at, first.id)
            < (-later.priority, later.submitted_at, later.id)
    WHERE first.submitted_at < later.started_at - interval '2 seconds'
        AND first.started_at > later.started_at + interval '2 seconds'
"""


@pytest.mark.parametrize(
    "mutant", [None, "without the lock", "in one statement", "a place given twice"]
)
def test_who_rush_in_at_once_get_no_more_than_the_places_and_mutants_do(
    rig: MakeRig, migrated_url: str, mutant: str | None
) -> None:
    most, came, one = asked(rig, migrated_url, each=25, rps=2000, batch=False, mutant=mutant)
    assert came == {"ok": LANES * 25}
    assert (most > PLACES) is (mutant is not None)
    assert mutant is not None or one.one(OVERTAKEN) == 0


IN_FLIGHT = 50
OPEN = "SELECT count(*) FROM interactive_requests WHERE state IN ('queued','running')"
COUNTED = f"{OPEN} AND lease_until > clock_timestamp()"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lane_that_is_killed_or_stopped_loses_its_places_within_its_lease(
    rig: MakeRig, migrated_url: str, how: signal.Signals
) -> None:
    """Its messages are delivered again, to another."""
    lease = {"lease_s": 3.0, "heartbeat_s": 0.5}
    with counting(30.0) as server:
        settings = given(migrated_url, server, IN_FLIGHT, batch=lease)
        one = rig(**{name: value for name, value in settings.items() if name != "database"})
        ids = [str(uuid.uuid4()) for _ in range(IN_FLIGHT)]
        with (
            lanes(1, settings, ids=ids, rps=1000) as (first,),
            lanes(1, settings, ids=ids, rps=1000) as (second,),
        ):
            first.go()
            until(lambda: server.asked == IN_FLIGHT, 20, "the calls")
            os.kill(first.process.pid, how)
            began = time.monotonic()
            until(lambda: one.one(COUNTED) == 0, 20, "the end of the leases")
            assert time.monotonic() - began < 2 * lease["lease_s"]
            server.delay_s = 0.01
            second.go()
            assert second.came_of_it() == {"ok": IN_FLIGHT}
            until(lambda: one.one(OPEN) == 0, 10, "the ends")
            if how is signal.SIGSTOP:
                os.kill(first.process.pid, signal.SIGCONT)
                assert server.loop is not None
                server.loop.call_soon_threadsafe(server.drop)
                first.came_of_it()
        assert one.rows("SELECT state, count(*) FROM interactive_requests GROUP BY state") == [
            ("done", IN_FLIGHT)
        ]
