"""What the benchmark of people makes of what it saw."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from typing import Any

from benchmarks.people import plan
from benchmarks.people.figures import Run, added_ms, document, run
from benchmarks.people.openload import Over, Threads, due, play
from benchmarks.people.proxy import Proxy
from benchmarks.people.report import HEADING, losses, page_with, section

TOLD: dict[str, Any] = {
    "machine": {"cores": 2},
    "measured_at": "2026-01-01T00:00:00",
    "endpoint_ms": [5.0, 7.0],
    "missing": [],
    "quick": False,
}


def a_run(contender: str, p50_ms: float | None = 7.0, **more: Any) -> Run:
    made = run(contender, 50.0, 10.0, [p50_ms] * 500, [0.1] * 500, cpu_s=1.0, caller_cpu_s=0.5)
    return replace(made, **more)


def test_percentiles_are_of_those_who_were_answered_and_the_others_are_not_hidden():
    made = run(
        "giveway",
        50.0,
        2.0,
        [*map(float, range(1, 101)), None],
        [0.0] * 101,
        cpu_s=0.202,
        caller_cpu_s=0.101,
        database_rtt_ms=2.5312,
        round_trips=303,
    )

    assert (made.sent, made.ok) == (101, 100)
    assert (made.p50_ms, made.p95_ms, made.p99_ms) == (50.0, 95.0, 99.0)
    assert (made.cpu_ms_per_request, made.caller_cpu_ms_per_request) == (2.0, 1.0)
    assert (made.database_rtt_ms, made.round_trips_per_request) == (2.53, 3.0)


def test_the_document_has_the_shape_that_others_read():
    told = document([a_run("direct")], seed=1)

    wanted = {"contender", "rps", "database_rtt_ms", "sent", "ok", "p50_ms", "p95_ms", "p99_ms"}
    assert wanted | {"cpu_ms_per_request"} <= set(told["runs"][0])
    assert told["seed"] == 1


def test_what_is_added_is_over_direct_at_the_same_rate_on_as_busy_a_machine():
    direct, busy = a_run("direct"), a_run("direct", 100.0, cores_busy=True)
    runs = [busy, direct, a_run("direct", 1.0, rps=10.0)]

    assert added_ms(a_run("giveway", 10.5), runs, "p50_ms") == 3.5
    assert added_ms(a_run("giveway", 130.0, cores_busy=True), runs, "p50_ms") == 30.0
    assert added_ms(a_run("giveway", 10.5, rps=300.0), runs, "p50_ms") is None
    assert added_ms(a_run("giveway", None), runs, "p50_ms") is None


def test_everybody_meets_the_same_arrivals_and_the_warm_up_is_at_the_same_rate():
    first, again = due(50.0, 2.0, 10.0, 1), due(50.0, 2.0, 10.0, 1)

    assert first == again == sorted(first)
    assert first[0] >= 0
    assert first[-1] < 12
    assert 450 < sum(at >= 2 for at in first) < 550
    assert due(50.0, 2.0, 10.0, 2) != first


def test_nobody_waits_for_anothers_answer_and_the_warm_up_is_not_counted():
    """The first one's answer comes last of all; an error is no answer."""
    held: list[Over] = []
    marked: list[int] = []

    def start(number: int, over: Over) -> None:
        if number == 1:
            held.append(over)
        else:
            over(number != 3)
        if number == 4:
            held[0](True)

    played = play(start, [0.0, 0.001, 0.002, 0.003, 0.004], 0.001, lambda: marked.append(1))

    waited = [wait is not None for wait in played.waits_ms]
    assert waited == [True, True, False, True]
    assert marked == [1]
    assert played.waits_ms[0] is not None
    assert played.waits_ms[0] >= 3.0  # From when it was due to when the last one had come.


def test_a_thread_that_fails_is_counted_and_goes_on():
    def ask(number: int) -> None:
        if number == 0:
            raise ConnectionError("gone")

    threads, told, done = Threads(ask), [], threading.Semaphore(0)
    for number in (0, 1):
        threads(number, lambda ok: (told.append(ok), done.release()))
    for _ in range(2):
        assert done.acquire(timeout=10)
    threads.close()

    assert sorted(told) == [False, True]


def test_a_contender_is_started_once_for_each_place_of_its_database():
    legs = plan.full()
    starts = [
        (leg.contender, leg.needs_proxy)
        for number, leg in enumerate(legs)
        if number == 0
        or (leg.contender, leg.needs_proxy)
        != (legs[number - 1].contender, legs[number - 1].needs_proxy)
    ]

    assert len(starts) == len(set(starts)) == 6
    assert {leg.rps for leg in legs if leg.contender == plan.LANE} >= {10, 20, 50, 100, 150, 300}
    assert sum(leg.seconds for leg in plan.quick()) < 30


def test_statements_that_go_together_are_one_round_trip():
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy = Proxy(server.getsockname()[:2])
        threading.Thread(target=proxy.serve, daemon=True).start()
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            theirs, _ = server.accept()
            with theirs:
                client.sendall(b"\0\3user\0somebody\0application_name\0giveway here\0\0")
                assert theirs.recv(100)
                client.sendall(b"more of the same turn")
                assert theirs.recv(100)
                theirs.sendall(b"answer")
                assert client.recv(100)
                client.sendall(b"the second turn")
                assert theirs.recv(100)
        proxy.close()

    assert dict(proxy.turns) == {"giveway here": 2}


def test_the_section_is_written_anew_and_leaves_the_rest_of_the_page():
    runs = [a_run("direct"), a_run("celery", 12.0), a_run("giveway", 11.0)]
    written = section(runs, TOLD)
    once = page_with("# Page\n\nWords.\n\n## After\n\nMore.\n", written)
    twice = page_with(once, written)
    within = page_with(f"# Page\n\n{HEADING}\n\nold\n\n## After\n\nMore.\n", written)

    assert once == twice
    assert once.startswith("# Page\n\nWords.\n\n## After\n\nMore.\n")
    assert within.endswith("\n\n## After\n\nMore.\n")
    assert "old" not in within
    assert "| 50 | 7.0 / 7.0 | 5.0 / 5.0 | 4.0 / 4.0 |" in written


def test_losses_are_told():
    direct, celery = a_run("direct"), a_run("celery", 12.0)

    assert losses([direct, celery, a_run("giveway", 11.0)]) == ["- Nowhere in this run."]
    slower = losses([direct, celery, a_run("giveway", 13.0, ok=499)])
    assert slower[0] == "- *giveway* at 50/s: 1 of 500 got no answer."
    assert slower[1] == "- *giveway* at 50/s: P50 is 6.0 ms above *direct*, Celery's 5.0 ms."
