"""The scaling tick on a real database: what it counts, what it writes, whom it tells."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from app.domain.autoscale import Reason, scaled_name
from app.domain.events import Event
from app.domain.routing import EndpointSpec
from app.services.hooks import Told
from tests.rig import MakeRig, Rig

QUICK = {"hold_s": 0.001, "out_cooldown_s": 0.001, "in_cooldown_s": 0.001, "pool": "main"}


class Notes:
    def __init__(self) -> None:
        self.seen: list[Event] = []

    def saw(self, event: Event) -> None:
        self.seen.append(event)


def scaled(rig: MakeRig, **more: Any) -> Rig:
    rules = {**QUICK, "command": ["serve", "{port}"], "models": ["fake-embed"], **more}
    one = rig(scaling=[rules])
    one.wiring.observer = Notes()
    return one


def ticked(one: Rig) -> Any:
    """A tick that no earlier one is too near to."""
    one.execute("UPDATE scalers SET updated_at = now() - interval '1 h'")
    return one.wiring.scaling.tick()["main"]


def add(one: Rig, which: str, name: str | None = None) -> None:
    one.wiring.endpoints.add(
        EndpointSpec(
            name=name or scaled_name("main", which),
            pool="main",
            kind="simulated",
            base_url=f"http://127.0.0.1:{which}/v1",
            models=("fake-embed",),
            max_concurrency=8,
        )
    )


def test_a_backlog_wants_more_and_nothing_more_until_that_one_serves(rig: MakeRig) -> None:
    one = scaled(rig, backlog_per_endpoint=4)
    first = ticked(one)
    one.submit([f"text {n}" for n in range(200)])
    before = [ticked(one) for _ in range(2)]
    add(one, "1")
    out = ticked(one)
    starting = ticked(one)
    add(one, "2")
    serving = [ticked(one).reason for _ in range(2)]

    assert (first.wanted, first.reason) == (1, Reason.IDLE)
    assert [(step.wanted, step.reason) for step in before] == [(1, Reason.STARTING)] * 2
    assert (out.wanted, out.reason) == (2, Reason.BACKLOG)
    assert (starting.wanted, starting.reason) == (2, Reason.STARTING)
    assert serving == [Reason.BACKLOG, Reason.STARTING]
    assert one.one("SELECT wanted FROM scalers") == 3


def test_what_waits_is_counted_in_requests_and_what_runs_is_not(rig: MakeRig) -> None:
    one = scaled(rig)
    one.submit([f"text {n}" for n in range(205)])  # micro-batches of 10
    load = one.wiring.scaling
    with one.database.transaction() as tx:
        from app.storage.gauge_store import GaugeStore

        assert load._loads(GaugeStore(tx), {})["main"].backlog == 21
    one.execute(
        "UPDATE chunks SET state = 'leased', endpoint = 'sim', leased_at = now(),"
        " lease_until = now() + interval '1 min' WHERE no = (SELECT min(no) FROM chunks)"
    )
    with one.database.transaction() as tx:
        seen = load._loads(GaugeStore(tx), {})["main"]

    assert (seen.backlog, seen.in_flight, seen.places, seen.endpoints) == (20, 1, 32, 1)
    assert seen.oldest_wait_s == 0  # the job has a request in flight


def test_added_endpoints_give_places_and_drained_ones_do_not(rig: MakeRig) -> None:
    one = scaled(rig)
    add(one, "1")
    add(one, "2", name="by-hand")
    add(one, "3")
    one.wiring.endpoints.drain(scaled_name("main", "3"))
    with one.database.transaction() as tx:
        from app.storage.gauge_store import GaugeStore

        seen = one.wiring.scaling._loads(GaugeStore(tx), {})["main"]

    assert (seen.places, seen.endpoints) == (32 + 8 + 8, 3)


def test_steps_are_events_and_doubled_ticks_do_nothing(rig: MakeRig) -> None:
    one = scaled(rig, backlog_per_endpoint=4, minimum=0)
    ticked(one)
    one.submit([f"text {n}" for n in range(200)])
    ticked(one)
    out = ticked(one)
    doubled = one.wiring.scaling.tick()
    one.execute("UPDATE jobs SET state = 'paused'")
    add(one, "1")
    inward = [ticked(one) for _ in range(2)]

    assert (out.wanted, doubled, inward[-1].wanted) == (1, {}, 0)
    assert [type(e).__name__ for e in one.wiring.observer.seen if "Scaled" in type(e).__name__] == [
        "ScaledOut",
        "ScaledIn",
    ]


def test_ticks_at_the_same_time_decide_once(rig: MakeRig) -> None:
    ones = [scaled(rig) for _ in range(4)]
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda o=o: found.append(o.wiring.scaling.tick())) for o in ones
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(bool(one) for one in found) == 1


def test_a_hook_is_told_once_what_is_wanted(rig: MakeRig, tmp_path: Path) -> None:
    log = tmp_path / "told"
    write = f"import sys; open({str(log)!r}, 'a').write(' '.join(sys.argv[1:]) + chr(10))"
    command = [sys.executable, "-c", write, "{pool}", "{wanted}", "{current}", "$(id) {x}"]
    one = scaled(rig, target="hook", command=command, backlog_per_endpoint=4)
    for _ in range(3):
        ticked(one)
    one.submit([f"text {n}" for n in range(200)])
    for _ in range(2):
        ticked(one)

    assert log.read_text().splitlines() == ["main 1 1 $(id) {x}", "main 2 1 $(id) {x}"]


def test_a_hook_that_fails_is_an_event_without_its_words_and_is_told_again(rig: MakeRig) -> None:
    command = [sys.executable, "-c", "print('secret words'); raise SystemExit(3)"]
    one = scaled(rig, target="hook", command=command, hook_timeout_s=5)
    ticked(one)
    again_at_once = ticked(one)
    seen = list(one.wiring.observer.seen)
    one.execute('UPDATE scalers SET state = state || \'{"telling_until": "2020-01-01T00:00Z"}\'')
    ticked(one)

    assert again_at_once.wanted == 1
    assert [(e.code, e.status) for e in seen] == [("hook_failed", 3)]
    assert len(one.wiring.observer.seen) == 2
    assert "secret" not in str(one.wiring.observer.seen)


def test_a_hook_that_does_not_end_is_ended(rig: MakeRig) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    one = scaled(rig, target="hook", command=command, hook_timeout_s=0.3)
    ticked(one)

    assert [e.code for e in one.wiring.observer.seen] == ["hook_timed_out"]


def test_a_hook_that_is_not_there_is_an_event(rig: MakeRig) -> None:
    one = scaled(rig, target="hook", command=["/nowhere/scale"])
    ticked(one)

    assert [e.code for e in one.wiring.observer.seen] == ["hook_not_started"]


def test_no_transaction_is_open_while_a_hook_runs(rig: MakeRig) -> None:
    one = scaled(rig, target="hook")
    idle: list[int] = []

    def run(command: Any, timeout_s: float) -> Told:
        other = rig()
        idle.append(
            other.one(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND state LIKE 'idle in transaction%'"
            )
        )
        return Told()

    one.wiring.scaling._run = run
    ticked(one)

    assert idle == [0]
