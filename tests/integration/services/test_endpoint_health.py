"""An endpoint that fails is left alone by every process, probed by one, and comes back."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from sqlalchemy import text

from app.declared.endpoints import endpoint_of
from app.domain.jobs import Failover, JobState
from app.domain.reserves import with_reserve
from app.domain.routing import EndpointHealth
from app.domain.throttle.values import Bounds
from app.errors import BadParams, NotFound, StateConflict, UnknownName
from app.services import claiming
from app.services.pools import Pool, current
from app.services.submission import JobRequest
from app.storage import endpoint_store
from app.storage.endpoint_store import EndpointStore
from app.storage.limit_store import LimitStore
from app.storage.pool_store import PoolSeen
from tests.rig import MakeRig, Rig, Texts
from tests.served import Served, serving
from tests.waiting import PATIENCE, until

TEXTS = [f"text number {n}" for n in range(400)]
AN_HOUR = "UPDATE endpoints SET open_until = now() + interval '1 hour' WHERE name = :name"


@pytest.fixture(scope="module")
def other_server() -> Iterator[Served]:
    with serving("--places", "32", "--speed", "50", "--models", "fake-chat", "fake-embed") as one:
        yield one


@pytest.fixture
def other(other_server: Served) -> Iterator[Served]:
    other_server.calm()
    yield other_server
    other_server.calm()


def declared(name: str, served: Served, **more: Any) -> dict[str, Any]:
    base = {"name": name, "base_url": served.url, "models": ["fake-chat", "fake-embed"]}
    return {**base, "kind": "simulated", "max_concurrency": 16, **more}


@pytest.fixture
def two(rig: MakeRig, endpoint: Served, other: Served) -> Callable[..., Rig]:
    """Rigs with the endpoints a and b. `a` and `b` hold what is declared of each besides."""

    def make(a: dict[str, Any] | None = None, b: dict[str, Any] | None = None, **more: Any) -> Rig:
        both = [declared("a", endpoint, **(a or {})), declared("b", other, **(b or {}))]
        return rig(endpoints=both, **more)

    return make


def standing(one: Rig, name: str) -> EndpointHealth:
    with one.database.transaction() as tx:
        return EndpointStore(tx).health("main")[name]


def requests(served: Served) -> int:
    return int(served.ledger()["requests"])


def work_until(one: Rig, job_id: int, seconds: float = 10.0, threads: int = 4) -> None:
    """Doorbells until the job is completed, or for so long at most on a machine that is quick."""
    rung(one, job_id, seconds * PATIENCE, threads)


def rung(one: Rig, job_id: int, seconds: float, threads: int = 4) -> list[float]:
    """Doorbells for so long; the seconds that each of them took."""
    end, took_s = time.monotonic() + seconds, []

    def ring() -> None:
        while time.monotonic() < end and one.job(job_id).state is not JobState.COMPLETED:
            began = time.monotonic()
            report = one.wiring.execution.run(job_id)
            took_s.append(time.monotonic() - began)
            if report.ended != "finished":
                time.sleep(0.02)
            one.wiring.completion.sweep()

    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(ring) for _ in range(threads)]:
            done.result()
    return took_s


def in_90_s() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)


def rush(one: Rig, asked: str, seconds: float = 1.3) -> tuple[int, list[float]]:
    """Four workers on an endpoint that always answers 429: its requests, each doorbell's time."""
    one.endpoint.order({"kind": "status", "status": 429, "retry_after": asked})
    job_id = one.submit(TEXTS).job.id
    took_s = rung(one, job_id, seconds)
    return requests(one.endpoint), took_s


@pytest.mark.parametrize(
    ("asked", "cools_s"),
    [("5", (4, 5)), ("90", (80, 90)), ("3600", (3500, 3600)), (None, (80, 90))],
    ids=["5", "90", "3600", "a date"],
)
def test_an_endpoint_gets_no_request_before_the_time_it_asked_for(
    rig: MakeRig, asked: str | None, cools_s: tuple[int, int]
) -> None:
    one = rig(batch={"retry_base_s": 0.5})
    began = time.monotonic()
    sent, took_s = rush(one, asked or in_90_s())
    left_s = float(one.one("SELECT extract(epoch FROM cool_until - now()) FROM endpoints"))
    since_s = time.monotonic() - began

    assert 1 <= sent <= 4  # Those that were on their way when the first refusal came.
    assert cools_s[0] - since_s <= left_s <= cools_s[1]
    assert max(took_s) < 4  # No thread sleeps until it may ask again.


@pytest.mark.parametrize("asked", ["-5", "soon", "0"])
def test_what_makes_no_sense_gets_our_own_backoff_with_one_request_at_a_time(
    rig: MakeRig, asked: str
) -> None:
    one = rig(batch={"retry_base_s": 0.5})
    began = time.monotonic()
    sent, took_s = rush(one, asked)
    since_s = time.monotonic() - began

    # At 0 s up to 4 at once, then one after at least 0.25, 0.5, 1 and 2 s more.
    assert 2 <= sent <= 4 + sum(since_s > at_s for at_s in (0.25, 0.75, 1.75, 3.75))
    assert len(took_s) > 2 * sent  # No thread sleeps until it may ask again.


def test_mutant_that_forgets_the_cool_down_hammers(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def blind(pool: Pool, seen: PoolSeen) -> Pool:
        now = as_seen(pool, seen)
        return Pool(now.bounds, now.policy, now.endpoints)

    as_seen = claiming.as_seen
    monkeypatch.setattr(claiming, "as_seen", blind)
    sent, _ = rush(rig(batch={"retry_base_s": 0.5}), "3600")
    assert sent > 10


def test_others_take_over_at_once_from_one_that_asks_for_an_hour(
    two: Callable[..., Rig], endpoint: Served, other: Served
) -> None:
    one = two()
    endpoint.order({"kind": "status", "status": 429, "retry_after": "3600"})
    job_id = one.submit(TEXTS).job.id
    work_until(one, job_id)

    assert one.progress(job_id).done == 400
    assert requests(endpoint) <= 4
    assert one.one("SELECT max(attempt) FROM chunks") == 0


def test_five_failures_in_a_row_open_the_breaker_for_all_processes(
    two: Callable[..., Rig], endpoint: Served
) -> None:
    one, another = two(), two(declare=False)
    endpoint.order({"kind": "status", "status": 500})
    job_id = one.submit(TEXTS).job.id
    work_until(one, job_id)

    assert standing(another, "a").word == "open"
    assert one.progress(job_id).done == 400
    before = requests(endpoint)
    # The breaker opened after five; those on their way then came too. Afterwards there is silence.
    assert 5 <= before <= 9
    later = another.submit(TEXTS[:100], key="later", collection="later").job.id
    work_until(another, later)
    assert another.progress(later).done == 100
    assert requests(endpoint) == before
    assert one.rows("SELECT type, endpoint FROM events") == [("endpoint_opened", "a")]


class Grave:
    """Listens where a server was, and closes each connection unanswered."""

    def __init__(self) -> None:
        self.knocks = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._thread.start()

    def _count(self) -> None:
        while True:
            try:
                knock, _ = self._socket.accept()
            except OSError:
                return
            self.knocks += 1
            knock.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)


@pytest.fixture
def grave() -> Iterator[Grave]:
    one = Grave()
    yield one
    one.close()


def a_job(one: Rig, key: str) -> None:
    texts = [f"{key} {text}" for text in TEXTS[:100]]
    job_id = one.submit(texts, key=key).job.id
    work_until(one, job_id)
    assert one.progress(job_id).done == 100


def knocks_while_open(one: Rig, grave: Grave) -> int:
    """Connections to a dead endpoint once it is open, or should be, over a second of work."""
    for number in range(40):
        a_job(one, f"first {number}")
        if standing(one, "a").word == "open" or grave.knocks >= 5:
            break
        time.sleep(0.05)
    before = grave.knocks
    assert before >= 3
    for number in range(4):
        time.sleep(0.3)
        a_job(one, f"later {number}")
    return grave.knocks - before


def test_the_dead_one_gets_no_request_but_probes(two: Callable[..., Rig], grave: Grave) -> None:
    one = two(
        a={"base_url": grave.url}, batch={"retry_base_s": 0.01}, health={"failures_to_open": 3}
    )
    assert knocks_while_open(one, grave) == 0
    due(one, "a")
    before = grave.knocks
    assert one.wiring.probing.tick(wait_s=60) == ["a"]
    assert (grave.knocks - before, standing(one, "a").word) == (1, "open")


def test_mutant_whose_breaker_never_opens_knocks_at_the_dead_one(
    two: Callable[..., Rig], grave: Grave
) -> None:
    one = two(
        a={"base_url": grave.url}, batch={"retry_base_s": 0.01}, health={"failures_to_open": 10**6}
    )
    assert knocks_while_open(one, grave) > 0


def test_a_server_that_spoils_vectors_costs_no_item_and_does_not_come_back_by_listing_its_models(
    two: Callable[..., Rig], endpoint: Served
) -> None:
    one = two(health={"open_s": 0.01, "open_max_s": 0.01})
    endpoint.order({"kind": "vectors", "mode": "nan"})
    job_id = one.submit(TEXTS).job.id
    work_until(one, job_id, 20)

    assert (one.progress(job_id).done, one.progress(job_id).failed) == (400, 0)
    assert one.one("SELECT max(attempt) FROM chunks") == 1
    assert one.rows("SELECT failed_task, failed_model FROM endpoints WHERE name = 'a'") == [
        ("embed", "fake-embed")
    ]
    assert not standing(one, "a").usable("fake-embed")
    assert standing(one, "a").usable("fake-chat")
    for _ in range(3):
        time.sleep(0.02)
        assert one.wiring.probing.tick(wait_s=60) == ["a"]
        assert standing(one, "a").word == "open"
    endpoint.calm()
    time.sleep(0.02)
    assert one.wiring.probing.tick(wait_s=60) == ["a"]
    assert (standing(one, "a").word, standing(one, "a").on_trial) == ("ok", True)


def test_a_chat_that_succeeds_does_not_clear_what_vectors_say(two: Callable[..., Rig]) -> None:
    one = two()
    one.execute("UPDATE endpoints SET failures = 3, failed_task = 'embed', openings = 1")
    with one.database.transaction() as tx:
        EndpointStore(tx).answered("a", "chat")
        EndpointStore(tx).answered("b", "embed")

    assert one.rows("SELECT failures, openings FROM endpoints ORDER BY name") == [(3, 0), (0, 0)]


def test_one_text_whose_vector_is_nan_everywhere_fails_alone_and_opens_nothing(
    two: Callable[..., Rig], endpoint: Served, other: Served
) -> None:
    one = two(batch={"micro_batch_items": 50, "retry_base_s": 0.01, "max_attempts": 3})
    for served in (endpoint, other):
        served.order({"kind": "vectors", "mode": "nan", "text": "number 33"})
    job_id = one.submit(TEXTS[:50]).job.id
    work_until(one, job_id, 10, threads=1)

    progress = one.progress(job_id)
    assert (progress.done, progress.failed) == (49, 1)
    assert one.rows("SELECT seq, code FROM results WHERE status = 'failed'") == [(34, "bad_reply")]
    assert standing(one, "a").word == standing(one, "b").word == "ok"


def due(one: Rig, name: str) -> None:
    one.execute(
        "UPDATE endpoints SET breaker = 'open', openings = 1, failures = 5, open_until = now(),"
        " failed_task = 'embed', failed_model = 'fake-embed' WHERE name = :name",
        name=name,
    )


def probes_of_a_storm(rigs: list[Rig], served: Served) -> int:
    """Eight ticks at once on two processes, while the endpoint thinks."""
    served.order({"kind": "delay", "delay_s": 0.5})
    due(rigs[0], "a")
    barrier = threading.Barrier(8)

    def tick(one: Rig) -> None:
        barrier.wait()
        one.wiring.probing.tick(wait_s=60)

    threads = [threading.Thread(target=tick, args=(rigs[n % 2],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return requests(served)


def test_a_half_open_endpoint_gets_exactly_one_probe_at_a_time(
    two: Callable[..., Rig], endpoint: Served
) -> None:
    rigs = [two(), two(declare=False)]
    assert probes_of_a_storm(rigs, endpoint) == 1
    assert standing(rigs[0], "a").word == "ok"


def test_mutant_without_the_probes_lease_probes_many_times(
    two: Callable[..., Rig], endpoint: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant = endpoint_store._TAKE_PROBES.text.replace(
        "AND coalesce(probe_until <= clock_timestamp(), true)", ""
    )
    monkeypatch.setattr(endpoint_store, "_TAKE_PROBES", text(mutant))
    assert probes_of_a_storm([two(), two(declare=False)], endpoint) > 1


def test_a_probe_that_comes_back_after_its_lease_changes_nothing(two: Callable[..., Rig]) -> None:
    one = two()
    due(one, "a")
    with one.database.transaction() as tx:
        (mine,) = EndpointStore(tx).take_probes(0.0)
    with one.database.transaction() as tx:
        (theirs,) = EndpointStore(tx).take_probes(60.0)
    one.wiring.probing._conclude(mine, None)
    assert standing(one, "a").word == "half-open"
    one.wiring.probing._conclude(theirs, None)
    assert standing(one, "a").word == "ok"


def test_an_endpoint_that_asked_for_an_hour_is_not_probed_before(two: Callable[..., Rig]) -> None:
    one = two()
    due(one, "a")
    one.execute(
        "UPDATE endpoints SET cool_until = now() + interval '1 hour', error_code = 'overloaded'"
        " WHERE name = 'a'"
    )
    assert one.wiring.probing.tick() == []
    one.execute("UPDATE endpoints SET error_code = 'connection' WHERE name = 'a'")
    assert one.wiring.probing.tick(wait_s=60) == ["a"]  # That was our own guess.
    assert standing(one, "a").word == "ok"


CALLS = """
    INSERT INTO batch_calls (job_id, pool, endpoint, model, ended_at, seconds, items,
        prompt_tokens) SELECT :job, 'main', :name, 'fake-embed', now(), :seconds, 64, 1000
    FROM generate_series(1, :n)
"""


def test_who_takes_three_times_as_long_as_its_peers_is_slow_and_recovers_by_itself(
    two: Callable[..., Rig],
) -> None:
    one = two()
    job = one.submit(["a"]).job.id
    one.execute(CALLS, job=job, name="a", seconds=0.3, n=6)
    one.execute(CALLS, job=job, name="b", seconds=0.1, n=6)

    assert one.wiring.probing.compare() == {"a": True}
    assert standing(one, "a").pace == pytest.approx(3.0)
    assert one.wiring.probing.compare() == {}
    one.execute(CALLS, job=job, name="a", seconds=0.1, n=9)
    assert one.wiring.probing.compare() == {"a": False}


def test_nobody_is_slow_by_a_few_calls_or_without_peers(two: Callable[..., Rig]) -> None:
    one = two()
    job = one.submit(["a"]).job.id
    one.execute(CALLS, job=job, name="a", seconds=9.0, n=30)
    one.execute(CALLS, job=job, name="b", seconds=0.1, n=4)

    assert one.wiring.probing.compare() == {}
    assert standing(one, "a").pace is None


@pytest.mark.parametrize("code", [401, 402])
def test_one_endpoint_without_key_or_money_does_not_pause_the_job(
    two: Callable[..., Rig], endpoint: Served, code: int
) -> None:
    one = two()
    endpoint.order({"kind": "status", "status": code})
    job_id = one.submit(TEXTS[:100]).job.id
    work_until(one, job_id)

    assert one.job(job_id).state is JobState.COMPLETED
    assert requests(endpoint) <= 4
    assert standing(one, "a").cooling


def test_batch_waits_for_a_primary_or_goes_to_a_backup_as_the_job_says(
    two: Callable[..., Rig], endpoint: Served, other: Served
) -> None:
    one = two(b={"role": "backup"})
    waits = one.submit(TEXTS[:50], key="waits", collection="waits").job.id
    goes = one.submit(TEXTS[:50], key="goes", failover=Failover.BACKUP).job.id
    due(one, "a")
    one.execute(AN_HOUR, name="a")
    work_until(one, goes, 5)

    assert one.wiring.execution.run(waits).ended == "endpoints"
    assert one.progress(goes).done == 50
    assert one.rows("SELECT DISTINCT endpoint, model FROM results") == [("b", None)]
    assert requests(endpoint) == 0


def test_a_result_says_which_model_stood_in(two: Callable[..., Rig], endpoint: Served) -> None:
    one = two(
        a={"models": ["big-chat"]},
        b={"role": "degraded", "models": ["fake-chat"], "stands_in_for": ["big-chat"]},
    )
    due(one, "a")
    one.execute(AN_HOUR, name="a")
    params = {"model": "big-chat", "prompt": "Say {text}", "max_tokens": 4}
    request = JobRequest("generate", params, key="gen", failover=Failover.DEGRADED)
    job_id = one.wiring.submission.submit(request, Texts(TEXTS[:5])).job.id
    work_until(one, job_id)

    rows = one.rows("SELECT DISTINCT status, endpoint, model FROM results")
    assert rows == [("done", "b", "fake-chat")]


def test_vectors_of_a_degraded_model_are_refused_at_submission(two: Callable[..., Rig]) -> None:
    one = two()
    with pytest.raises(BadParams, match="vectors of another model"):
        one.submit(TEXTS[:5], failover=Failover.DEGRADED)
    assert one.one("SELECT count(*) FROM jobs") == 0


@pytest.mark.parametrize(
    ("away", "most"),
    [
        ("breaker = 'open', open_until = now() + interval '1 hour'", 14),
        ("cool_until = now() + interval '1 hour'", 14),
        ("draining = true", 14),
        ("slow = true", 30),
        ("refusals = 1", 15),
        ("openings = 1", 15),
        ("breaker = 'half_open'", 14),
        ("breaker = 'open', error_code = 'bad_reply', failed_model = 'fake-chat'", 30),
    ],
    ids=["open", "cooling", "draining", "slow", "refused", "on trial", "half-open", "spoils chat"],
)
def test_the_reserve_is_kept_among_the_places_that_are_in_service(
    two: Callable[..., Rig], away: str, most: int
) -> None:
    """Two endpoints of 16 places, two of which are people's."""
    one = two(pools=[{"name": "main", "total": 32, "reserve": 2, "batch_max": 30}])
    one.limit(30)
    one.execute(f"UPDATE endpoints SET {away} WHERE name = 'a'")
    job = one.job(one.submit([f"text {n}" for n in range(40)], chunk_items=1).job.id)
    pool = one.wiring.pools.named("main")

    def claimed() -> bool:
        with one.database.transaction() as tx:
            return isinstance(claiming.claim(tx, job, pool, "w", 60), claiming.Claimed)

    assert sum(claimed() for _ in range(40)) == most
    assert one.wiring.inspection.pool("main").limit == most
    assert one.wiring.reporting.report(60).pools[0].limit == most


@pytest.mark.parametrize(
    ("places", "away", "limit"),
    [(32, 0, 30), (2, 0, 30), (16, 16, 14), (0, 32, 30), (1, 31, 1), (40, 8, 30)],
)
def test_the_limit_is_less_only_while_somebody_is_away(places: int, away: int, limit: int) -> None:
    bounds = Bounds(total=32, reserve=2, batch_min=1, batch_max=30, pool="main")
    assert with_reserve(30, places, away, bounds) == limit


def test_where_no_primary_is_in_service_batch_has_the_backup_s_places(
    two: Callable[..., Rig],
) -> None:
    one = two(b={"role": "backup"})
    one.execute("UPDATE endpoints SET draining = true WHERE name = 'a'")
    job_id = one.submit([f"text {n}" for n in range(40)], chunk_items=1, failover="backup").job.id
    job, pool = one.job(job_id), one.wiring.pools.named("main")
    for _ in range(16):
        with one.database.transaction() as tx:
            assert isinstance(claiming.claim(tx, job, pool, "w", 60), claiming.Claimed)


def test_a_drained_endpoint_finishes_and_gets_nothing_new(
    two: Callable[..., Rig], endpoint: Served
) -> None:
    one, another = two(), two(declare=False)
    one.wiring.endpoints.drain("a")
    job_id = another.submit(TEXTS[:100]).job.id
    work_until(another, job_id)
    assert (another.progress(job_id).done, requests(endpoint)) == (100, 0)

    one.wiring.declare()  # A restart forgets nothing.
    assert standing(one, "a").word == "draining"
    one.wiring.endpoints.undrain("a")
    work_until(another, another.submit(TEXTS[100:300], key="2").job.id)
    assert requests(endpoint) > 0


def added(served: Served, **more: Any) -> Any:
    return endpoint_of(declared("late", served, **{"models": ["new-embed", "fake-embed"], **more}))


def test_an_endpoint_that_is_added_serves_at_once_and_raises_the_total(
    rig: MakeRig, other: Served
) -> None:
    one, another = rig(), rig(declare=False)
    with pytest.raises(UnknownName, match="no pool 'elsewhere'"):
        one.wiring.endpoints.add(added(other, pool="elsewhere"))
    one.wiring.endpoints.add(added(other))
    with pytest.raises(StateConflict, match="an endpoint 'late' is there already"):
        one.wiring.endpoints.add(added(other))

    assert (another.wiring.inspection.pool("main").total, total(another)) == (48, 48)
    assert another.wiring.interactive.pool_for("new-embed") == "main"
    one.wiring.declare()
    assert one.one("SELECT count(*) FROM endpoints") == 2
    one.wiring.endpoints.drain("sim")
    job_id = another.submit(TEXTS[:100]).job.id
    work_until(another, job_id)
    assert another.progress(job_id).done == 100
    assert requests(other) == 10


def total(one: Rig) -> int:
    """Places of the pool, as a claim counts them."""
    with one.database.transaction() as tx:
        row = LimitStore(tx).read("main")
        assert row is not None
        return current(tx, one.wiring.pools.named("main"), row).bounds.total


def test_a_removed_endpoint_is_drained_first(rig: MakeRig, other: Served) -> None:
    one = rig()
    one.wiring.endpoints.add(added(other))
    other.order({"kind": "delay", "delay_s": 1.5})
    one.wiring.endpoints.drain("sim")
    job_id = one.submit(TEXTS[:10]).job.id
    worker = threading.Thread(target=one.wiring.execution.run, args=(job_id,))
    worker.start()
    until(lambda: one.wiring.endpoints.running("late") == 1, 5, "a request at the endpoint")

    assert one.wiring.endpoints.remove("late") is False
    assert standing(one, "late").word == "draining"
    worker.join(60)
    assert one.progress(job_id).done == 10
    assert one.wiring.endpoints.remove("late") is True
    with pytest.raises(NotFound, match="no endpoint 'late'; known: sim"):
        one.wiring.endpoints.remove("late")
    with pytest.raises(StateConflict, match="declared in the settings"):
        one.wiring.endpoints.remove("sim")
