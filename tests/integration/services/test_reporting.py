"""The report: what it counts, against rows whose sums are known."""

from __future__ import annotations

import uuid
from dataclasses import asdict
from typing import Any

import pytest
from sqlalchemy import event

from app.domain.reports import Report
from app.domain.throttle.samples import Sample, x_of
from app.services.reporting import COLUMNS
from tests.rig import MakeRig, Rig


def person(
    one: Rig,
    ago_s: float,
    *,
    queue_s: float = 0.0,
    first_s: float | None = 0.2,
    whole_s: float = 0.4,
    tokens: int | None = 8,
    error: str | None = None,
    task: str = "chat",
    endpoint: str = "sim",
    money: float = 0.0,
) -> None:
    """An interactive request that ended `ago_s` seconds ago."""
    one.execute(
        "INSERT INTO interactive_requests (id, pool, task_type, model, endpoint, state,"
        " submitted_at, started_at, first_token_at, finished_at, prompt_tokens, completion_tokens,"
        " error_code, money)"
        " SELECT :id, 'main', :task, 'fake-chat', :endpoint,"
        " CASE WHEN CAST(:error AS text) IS NULL THEN 'done' ELSE 'failed' END, came,"
        " came + make_interval(secs => :queue_s), came + make_interval(secs => :first_s),"
        " came + make_interval(secs => :whole_s), 10, :tokens, :error, :money"
        " FROM (SELECT now() - make_interval(secs => :ago_s + :whole_s) AS came) t",
        id=uuid.uuid4(),
        task=task,
        endpoint=endpoint,
        error=error,
        queue_s=queue_s,
        first_s=first_s,
        whole_s=whole_s,
        tokens=tokens,
        ago_s=ago_s,
        money=money,
    )


def call(
    one: Rig, ago_s: float, seconds: float, *, error: str | None = None, rough: bool = False
) -> None:
    """A batch call that ended `ago_s` seconds ago."""
    one.execute(
        "INSERT INTO batch_calls (job_id, pool, endpoint, ended_at, seconds, items, prompt_tokens,"
        " completion_tokens, money, error_code, rough) VALUES (1, 'main', 'sim',"
        " now() - make_interval(secs => :ago_s), :seconds, 4, 100, 20, 0.5, :error, :rough)",
        ago_s=ago_s,
        seconds=seconds,
        error=error,
        rough=rough,
    )


def reported(one: Rig, since_s: float = 600.0) -> Report:
    return one.wiring.reporting.report(since_s)


def test_an_empty_database_gives_an_empty_report(rig: MakeRig) -> None:
    found = reported(rig())

    assert (found.jobs, found.errors, found.events, found.tokens, found.money) == ([], [], [], 0, 0)
    (pool,) = found.pools
    assert (pool.limit, pool.total, pool.people.requests, pool.people.on_target) == (
        31,
        32,
        0,
        None,
    )
    (endpoint,) = found.endpoints
    assert (endpoint.name, endpoint.state, endpoint.utilisation) == ("sim", "ok", 0.0)


def test_people_are_ranked_and_held_to_their_targets_as_the_throttle_does(rig: MakeRig) -> None:
    one = rig()
    policy = one.wiring.pools.named("main").policy
    cases: list[dict[str, Any]] = [
        {"whole_s": 0.4, "tokens": 8},
        {"whole_s": 0.6, "tokens": 8},
        {"whole_s": 3.0, "first_s": 0.4, "tokens": 101},
        {"whole_s": 9.0, "first_s": 0.4, "tokens": 101},
        {"whole_s": 3.0, "first_s": 0.7, "tokens": 101},
        {"whole_s": 0.3, "first_s": None, "tokens": None, "task": "embed"},
        {"whole_s": 0.9, "first_s": None, "tokens": None, "task": "embed"},
        {"whole_s": 5.0, "first_s": None, "tokens": None, "error": "timeout"},
        {"whole_s": 0.1, "first_s": None, "tokens": None, "error": "bad_request"},
    ]
    for number, case in enumerate(cases):
        person(one, 5.0 + number, queue_s=0.01 * (number + 1), **case)
    person(one, 700.0, whole_s=99.0)  # before the span
    (pool,) = reported(one).pools
    xs = [
        x_of(
            Sample(
                age_ms=1000 * case["whole_s"],
                first_token_ms=None
                if case.get("first_s", 0.2) is None
                else 1000 * case.get("first_s", 0.2),
                output_tokens=case["tokens"],
                finished=True,
                streams=case.get("task", "chat") == "chat",
                error_code=case.get("error"),
            ),
            policy,
        )
        for case in cases
    ]
    rated = [x for x in xs if x is not None]

    assert (pool.people.requests, pool.people.failed) == (9, 2)
    assert pool.people.on_target == sum(x <= 1 for x in rated) / len(rated)
    assert pool.people.whole_ms.p50 == pytest.approx(900)
    assert pool.people.whole_ms.p99 == pytest.approx(9000)
    assert pool.people.queue_ms.p50 == pytest.approx(50)
    assert pool.people.queue_ms.p95 == pytest.approx(90)
    assert pool.people.first_token_ms.p95 == pytest.approx(700)
    assert sum(point.requests for point in pool.people_over_time) == 9


def test_endpoints_count_both_classes_and_what_they_cost(rig: MakeRig) -> None:
    one = rig()
    call(one, 10, 2.0)
    call(one, 20, 4.0, rough=True)
    call(one, 30, 1.0, error="overloaded")
    call(one, 900, 1.0)
    person(one, 40, whole_s=0.6, money=0.25)
    person(one, 50, endpoint="gone")
    sim, gone = reported(one).endpoints

    assert (sim.finished, sim.failed, sim.failure_rate) == (3, 1, 0.25)
    assert sim.mean_ms == pytest.approx((2000 + 4000 + 600) / 3)
    assert (sim.prompt_tokens, sim.completion_tokens) == (310, 68)
    assert (sim.tokens, sim.rough_tokens, gone.rough_tokens) == (378, 120, 0)
    assert sim.money == pytest.approx(1.75)
    assert (gone.name, gone.state, gone.utilisation, gone.finished) == ("gone", "removed", None, 1)


def test_utilisation_is_seconds_in_flight_over_seconds_of_places(rig: MakeRig) -> None:
    one = rig()
    call(one, 100, 300.0)  # over thirty columns of ten seconds
    call(one, 590, 20.0)  # half of it before the span
    found = reported(one)
    (sim,) = found.endpoints
    assert sim.utilisation_over_time is not None
    busy = [32 * 10 * share for share in sim.utilisation_over_time]

    assert len(busy) == COLUMNS
    assert sum(busy) == pytest.approx(310, abs=0.5)
    assert busy[30] == pytest.approx(10, abs=0.01)
    assert sim.utilisation == pytest.approx(310 / (32 * 600), rel=0.01)


def test_a_request_in_flight_is_in_use_and_neither_finished_nor_failed(rig: MakeRig) -> None:
    one = rig()
    one.execute(
        "INSERT INTO interactive_requests (id, pool, task_type, model, endpoint, state,"
        " submitted_at, started_at, lease_until) VALUES (gen_random_uuid(), 'main', 'chat',"
        " 'fake-chat', 'sim', 'running', now() - interval '60 s', now() - interval '60 s',"
        " now() + interval '60 s')"
    )
    (sim,) = reported(one).endpoints

    assert (sim.interactive_in_flight, sim.finished, sim.failed) == (1, 0, 0)
    assert sim.utilisation == pytest.approx(60 / (32 * 600), rel=0.01)


def test_jobs_backlog_and_errors_by_code(rig: MakeRig) -> None:
    one = rig()
    done = one.submit(["a text", "another"], key="small").job
    one.work(done.id)
    waiting = one.submit([f"text {n}" for n in range(205)], key="large").job
    one.execute("UPDATE jobs SET ready_at = now() - interval '42 s' WHERE id = :id", id=waiting.id)
    one.execute(
        "INSERT INTO results (job_id, seq, chunk_no, status, code)"
        " SELECT :id, n, 0, 'failed', 'too_long' FROM generate_series(0, 2) n",
        id=waiting.id,
    )
    one.execute(
        "UPDATE chunks SET failed = 3 WHERE job_id = :id AND first_seq = (SELECT min(first_seq)"
        " FROM chunks WHERE job_id = :id)",
        id=waiting.id,
    )
    call(one, 15, 1.0, error="overloaded")
    person(one, 5, error="timeout", first_s=None)
    found = reported(one)
    (pool,) = found.pools

    assert [(j.key, j.state, j.done, j.failed) for j in found.jobs] == [
        ("large", "ready", 0, 3),
        ("small", "completed", 2, 0),
    ]
    assert found.jobs[0].failed_by_code == {"too_long": 3}
    assert (pool.backlog.jobs, pool.backlog.items, pool.backlog.requests) == (1, 202, 21)
    assert pool.backlog.jobs_wait_s == pytest.approx(42, abs=2)
    assert [(e.whose, e.code, e.count) for e in found.errors] == [
        ("batch", "overloaded", 1),
        ("interactive", "timeout", 1),
        ("item", "too_long", 3),
    ]


def test_limits_are_the_last_of_each_column(rig: MakeRig) -> None:
    one = rig()
    one.execute(
        "INSERT INTO throttle_decisions (pool, computed_at, value, pressure, reason, arguments,"
        " result) SELECT 'main', now() - make_interval(secs => n), n % 7, 0.5, 'raise', '{}', '{}'"
        " FROM generate_series(1, 599) n"
    )
    points = reported(one).pools[0].limits

    assert len(points) == COLUMNS
    assert points[-1].limit == 1


def test_what_scaling_did_is_not_crowded_out_by_other_events(rig: MakeRig) -> None:
    one = rig()
    one.execute(
        "INSERT INTO events (at, type, pool, facts) VALUES (now() - interval '60 s', 'scaled_out',"
        " 'main', '{}'), (now() - interval '50 s', 'scale_failed', 'main', '{}');"
        "INSERT INTO events (type, pool, facts) SELECT 'limit_moved', 'main', '{}'"
        " FROM generate_series(1, 600)"
    )
    found = reported(one)
    assert {one["type"] for one in found.events} == {"limit_moved"}
    assert [one["type"] for one in found.scaling] == ["scaled_out", "scale_failed"]


def statements(one: Rig) -> int:
    """How many statements a report takes."""
    seen: list[str] = []

    def count(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    engine = one.database.engine
    event.listen(engine, "before_cursor_execute", count)
    reported(one)
    event.remove(engine, "before_cursor_execute", count)
    return len(seen)


def test_the_number_of_statements_does_not_grow_with_what_there_is(rig: MakeRig) -> None:
    one = rig()
    empty = statements(one)
    one.submit(["a text"], key="first", after=())
    single = statements(one)
    for number in range(5):
        job = one.submit([f"{number} text {n}" for n in range(5)], key=f"job{number}").job
        one.execute("UPDATE chunks SET failed = 1 WHERE job_id = :id", id=job.id)
        person(one, 5 + number)

    assert statements(one) <= single + 1
    assert empty <= 18
    assert single <= empty + 12  # Why open jobs wait: so many for each pool.


def test_the_report_is_of_one_moment(rig: MakeRig) -> None:
    one = rig()
    other = rig()
    first: list[str] = []

    def meddle(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "FROM jobs" in statement and not first:
            first.append(statement)
            other.submit(["a text"], key="late")

    engine = one.database.engine
    reported(one)
    event.listen(engine, "after_cursor_execute", meddle)
    found = reported(one)
    event.remove(engine, "after_cursor_execute", meddle)

    assert first
    assert found.pools[0].backlog.items == 0
    assert reported(one).pools[0].backlog.items == 1


def test_no_text_of_anybody_is_in_it(rig: MakeRig) -> None:
    one = rig()
    job = one.submit(["the secret text"], key="k").job
    one.execute(
        "INSERT INTO results (job_id, seq, chunk_no, status, code, error)"
        " VALUES (:id, 0, 0, 'failed', 'refused', 'secret answer')",
        id=job.id,
    )
    one.execute("UPDATE chunks SET failed = 1")

    assert "secret" not in str(asdict(reported(one)))


def test_it_begins_with_the_first_thing_that_happened(rig: MakeRig) -> None:
    one = rig()
    person(one, 300.0)
    found = one.wiring.reporting.report(3600.0, from_first=True)
    assert found.since_s == pytest.approx(300.0, abs=10)
    assert found.pools[0].people_over_time[0].column == 0
    person(one, 5000.0)
    assert one.wiring.reporting.report(3600.0, from_first=True).since_s < 400
    assert one.wiring.reporting.report(3600.0).since_s == pytest.approx(3600.0)
    one.execute("DELETE FROM interactive_requests")
    person(one, 3.0)
    assert one.wiring.reporting.report(3600.0, from_first=True).since_s == pytest.approx(60.0)


def test_batch_is_told_by_column(rig: MakeRig) -> None:
    one = rig()
    one.work(one.submit([f"text {n}" for n in range(120)]).job.id)
    (pool,) = reported(one).pools
    assert sum(point.items for point in pool.batch_over_time) == 120
    found = reported(one)
    assert pool.batch_over_time[-1].items_per_s == pytest.approx(
        pool.batch_over_time[-1].items / found.column_s
    )


def test_prices_are_known_of(rig: MakeRig) -> None:
    assert reported(rig()).priced is False
    one = rig()
    spec = {**one._given["endpoints"][0], "input_price": 0.1}
    assert reported(rig(endpoints=[spec])).priced is True
