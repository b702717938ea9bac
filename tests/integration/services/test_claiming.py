"""Claims never pass the limit or the pool's total, however many claim at once."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from app import clock
from app.domain.inference import ChatRequest, Message
from app.domain.requests import NewRequest
from app.services.claiming import Claimed, NotNow, claim
from app.services.people.admission import Admission
from app.services.people.tickets import Ticket, window
from app.services.pools import Pool
from app.storage.database import Database
from app.storage.lane_store import LaneStore
from app.storage.lease_store import LeaseStore
from app.storage.limit_store import LimitStore, Occupancy
from app.storage.pool_store import PoolSeen, PoolStore
from tests.rig import MakeRig, Rig
from tests.trips import trips
from tests.waiting import until

CLAIMERS = 24
ENOUGH = 600
"""Claims of a storm, at least."""
HELLO = ChatRequest("fake-chat", (Message("user", "hello"),), 8)
_LOG = text("INSERT INTO claim_log (what, size) VALUES (:what, :size)")


def violations_of_a_storm(one: Rig) -> tuple[int, int]:
    """24 claimers, a limit that moves; (claims that passed the limit in force, claims in all).

    Each claim and each move is numbered while the limit row is locked, each release before its
    commit, so that going through the numbers gives the true count at every claim.
    """
    one.execute("CREATE TABLE claim_log (id serial, what text, size int)")
    job_id = one.submit([f"text {n}" for n in range(4000)], chunk_items=1).job.id
    job, pool = one.job(job_id), one.wiring.pools.named("main")
    made = itertools.count()
    enough = threading.Event()

    def claimer(number: int) -> None:
        chance = random.Random(number)
        while not enough.is_set():
            claimed = claimed_once(one, job, pool)
            if isinstance(claimed, NotNow):
                time.sleep(chance.random() * 0.002)
                continue
            if next(made) >= ENOUGH:
                enough.set()
            time.sleep(chance.random() * 0.01)
            with one.database.transaction() as tx:
                tx.execute(_LOG, {"what": "release", "size": 0})
                LeaseStore(tx).finish(claimed.lease)

    def mover() -> None:
        chance = random.Random(99)
        while not enough.is_set():
            value = chance.randint(1, 12)
            with one.database.transaction() as tx:
                LimitStore(tx).lock("main")
                tx.execute(_LOG, {"what": "limit", "size": value})
                tx.execute(
                    text(
                        "UPDATE throttle_limits SET state = jsonb_set(state, '{limit}',"
                        " to_jsonb(CAST(:v AS int)))"
                    ),
                    {"v": value},
                )
            time.sleep(0.02)

    threads = [threading.Thread(target=claimer, args=(n,)) for n in range(CLAIMERS)]
    threads.append(threading.Thread(target=mover))
    for thread in threads:
        thread.start()
    try:
        until(enough.is_set, 30, "the claims")
    finally:
        enough.set()
        for thread in threads:
            thread.join(120)
    flying, limit, over, claims = 0, 31, 0, 0
    for what, size in one.rows("SELECT what, size FROM claim_log ORDER BY id"):
        match what:
            case "limit":
                limit = size
            case "release":
                flying -= 1
            case _:
                claims += 1
                flying += 1
                over += flying > limit
    return over, claims


def claimed_once(one: Rig, job: Any, pool: Pool) -> Claimed | NotNow:
    with one.database.transaction() as tx:
        claimed = claim(tx, job, pool, "w#1", 60)
        if isinstance(claimed, Claimed):
            tx.execute(_LOG, {"what": "claim", "size": 0})
        return claimed


def test_24_claimers_never_pass_a_moving_limit(rig: MakeRig) -> None:
    over, claims = violations_of_a_storm(rig())
    assert claims >= ENOUGH
    assert over == 0


def test_mutant_that_locks_and_counts_in_one_statement_passes_the_limit(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = PoolStore.locked

    def lock_and_count(self: PoolStore, pool: str, job_id: int) -> PoolSeen:
        row = self._tx.execute(
            text(
                "SELECT (SELECT count(*) FROM chunks WHERE state = 'leased' AND pool = t.pool)"
                " AS n FROM throttle_limits t WHERE pool = :pool FOR UPDATE"
            ),
            {"pool": pool},
        ).one()
        occupancy = Occupancy({"sim": row.n}, {}, 0)
        return replace(locked(self, pool, job_id), occupancy=occupancy)

    monkeypatch.setattr(PoolStore, "locked", lock_and_count)
    over, claims = violations_of_a_storm(rig())
    assert claims >= ENOUGH
    assert over > 0


def test_both_classes_together_never_pass_the_total(rig: MakeRig) -> None:
    one = rig(pools=[{"name": "main", "total": 6, "batch_max": 5}])
    one.limit(5)
    job_id = one.submit([f"text {n}" for n in range(3000)], chunk_items=1).job.id
    job, pool = one.job(job_id), one.wiring.pools.named("main")
    over = threading.Event()
    most: list[int] = []
    served = itertools.count(1)

    def batch() -> None:
        while not over.is_set():
            with one.database.transaction() as tx:
                claimed = claim(tx, job, pool, "w#1", 60)
            time.sleep(0.02)
            if isinstance(claimed, Claimed):
                with one.database.transaction() as tx:
                    LeaseStore(tx).finish(claimed.lease)

    def people() -> None:
        while not over.is_set():
            request = a_request()
            take_place(one, request)
            time.sleep(0.02)
            one.execute(
                "UPDATE interactive_requests SET state = 'done', finished_at = now(),"
                " lease_until = NULL WHERE id = :id",
                id=request.id,
            )
            if next(served) > 100:
                over.set()

    def watcher() -> None:
        while not over.is_set():
            most.append(in_flight(one.database))

    threads = [threading.Thread(target=batch) for _ in range(8)]
    threads += [threading.Thread(target=people) for _ in range(8)]
    threads.append(threading.Thread(target=watcher))
    for thread in threads:
        thread.start()
    try:
        until(over.is_set, 20, "a hundred people's end")
    finally:
        over.set()
        for thread in threads:
            thread.join(60)
    assert 4 <= max(most) <= 6
    assert one.one("SELECT count(*) FROM interactive_requests WHERE state = 'done'") > 100
    assert one.one("SELECT count(*) FROM chunks WHERE state = 'done'") > 20


def in_flight(database: Database) -> int:
    with database.transaction() as tx:
        occupancy = LimitStore(tx).occupancy("main")
    return occupancy.batch_total + occupancy.interactive_total


def a_request(priority: int = 0) -> NewRequest:
    return NewRequest(uuid.uuid4(), "main", "chat", "fake-chat", clock.now(), priority=priority)


def take_place(one: Rig, request: NewRequest) -> None:
    """A person's request until it has its place, without the call."""

    async def placed() -> None:
        wiring = one.wiring
        store = LaneStore(wiring.database, "main", wiring.worker, 60)
        admission = Admission(wiring.pools.named("main"), store, lambda: None)
        own = window(request, clock.now(), clock.monotonic_s(), 120, 120)
        try:
            await admission.place(Ticket((request,), HELLO, own))
        finally:
            await admission.close()

    asyncio.run(placed())


def test_the_reserve_is_free_for_a_person_when_batch_is_at_its_most(rig: MakeRig) -> None:
    one = rig(pools=[{"name": "main", "total": 4, "batch_max": 3}])
    one.limit(3)
    job = one.submit([f"text {n}" for n in range(9)], chunk_items=1).job
    pool = one.wiring.pools.named("main")
    with one.database.transaction() as tx:
        claims = [claim(tx, job, pool, "w#1", 60) for _ in range(4)]

    assert [isinstance(c, Claimed) for c in claims] == [True, True, True, False]
    take_place(one, a_request())  # Which, without a free place, would wait: nobody ends here.
    assert in_flight(one.database) == 4


def test_a_limit_out_of_date_means_the_floor(rig: MakeRig) -> None:
    one = rig()
    job = one.submit([f"text {n}" for n in range(9)], chunk_items=1).job
    one.execute(
        "UPDATE throttle_limits SET state = jsonb_set(state, '{valid_until}',"
        " to_jsonb(now() - interval '1 second'))"
    )
    with one.database.transaction() as tx:
        claims = [claim(tx, job, one.wiring.pools.named("main"), "w#1", 60) for _ in range(3)]
    assert [isinstance(c, Claimed) for c in claims] == [True, False, False]


def test_a_job_never_has_more_in_flight_than_its_own_cap(rig: MakeRig) -> None:
    one = rig()
    job = one.submit([f"text {n}" for n in range(9)], chunk_items=1, max_in_flight=2).job
    with one.database.transaction() as tx:
        claims = [claim(tx, job, one.wiring.pools.named("main"), "w#1", 60) for _ in range(4)]
    assert [isinstance(c, Claimed) for c in claims] == [True, True, False, False]
    assert claims[2] == NotNow("job_cap")


def two_leased(one: Rig) -> None:
    leased = "state = 'leased', endpoint = 'sim', lease_until = now() + interval '1 hour'"
    one.execute(f"UPDATE chunks SET {leased} WHERE no < (SELECT min(no) + 2 FROM chunks)")


def at_the_limit(one: Rig) -> None:
    two_leased(one)
    one.limit(2)


def pool_full(one: Rig) -> None:
    two_leased(one)
    one.execute("""UPDATE throttle_limits SET tuned = '{"total": 4, "batch_max": 3}'""")
    one.execute(
        "INSERT INTO interactive_requests (id, pool, task_type, model, state, submitted_at,"
        " endpoint, worker, lease_until) SELECT gen_random_uuid(), 'main', 'chat', 'fake-chat',"
        " 'running', now(), 'sim', 'w', now() + interval '1 hour' FROM generate_series(1, 2)"
    )


def at_its_cap(one: Rig) -> None:
    two_leased(one)
    one.execute("UPDATE jobs SET max_in_flight = 2")


def endpoint_at_rest(one: Rig) -> None:
    one.execute("UPDATE endpoints SET cool_until = now() + interval '1 hour'")


def nothing_ready(one: Rig) -> None:
    one.execute("UPDATE chunks SET not_before = now() + interval '1 hour'")


@pytest.mark.parametrize(
    ("why", "hinder"),
    [
        ("limit", at_the_limit),
        ("total", pool_full),
        ("job_cap", at_its_cap),
        ("endpoints", endpoint_at_rest),
        ("nothing_ready", nothing_ready),
    ],
)
def test_a_claim_that_cannot_succeed_takes_no_lock(
    rig: MakeRig, why: str, hinder: Callable[[Rig], None]
) -> None:
    """People wait for that lock: here somebody else holds it meanwhile."""
    one = rig()
    job_id = one.submit([f"text {n}" for n in range(4)], chunk_items=1).job.id
    hinder(one)
    job, pool = one.job(job_id), one.wiring.pools.named("main")
    with one.database.transaction() as other:
        LimitStore(other).lock("main")
        for _ in range(10):
            with one.database.transaction() as tx:
                tx.execute(text("SET LOCAL lock_timeout = 1"))
                assert claim(tx, job, pool, "w#1", 60) == NotNow(why)


def test_a_claim_is_four_round_trips(rig: MakeRig, migrated_url: str) -> None:
    """Look; lock and count, lease, the job's turn."""
    with trips(migrated_url) as relay:
        one = rig(database={"url": relay.url, "connections": 5})
        job = one.submit([f"text {n}" for n in range(9)], chunk_items=1).job
        pool = one.wiring.pools.named("main")
        spent = []
        for _ in range(6):  # A statement is prepared the second time.
            with one.database.transaction() as tx:
                tx.execute(text("SELECT 1"))  # The transaction begins.
                before = relay.count
                assert isinstance(claim(tx, job, pool, "w#1", 60), Claimed)
                spent.append(relay.count - before)
        one.close()
    assert spent[-1] == 4, spent
