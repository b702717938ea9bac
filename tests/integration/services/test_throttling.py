"""The tick on real rows: what it writes, what it survives, and that it replays."""

from __future__ import annotations

import threading
from datetime import timedelta

import orjson
import pytest

from app import clock, errors
from app.domain.throttle.decide import decide, limit_now
from app.domain.throttle.readings import Reading
from app.domain.throttle.values import Bounds, Decision, PolicySettings, State
from app.services.claiming import Claimed, claim
from app.services.submission import JobRequest
from tests.rig import MakeRig, Rig, Texts

SMALL = [{"name": "main", "total": 8, "batch_max": 7}]


def age_decision(one: Rig, seconds: float) -> None:
    """As if the last decision had been made so long ago."""
    one.execute(
        "UPDATE throttle_limits SET computed_at = computed_at - make_interval(secs => :s),"
        " state = jsonb_set(jsonb_set(state, '{decided_at}',"
        " to_jsonb(CAST(state->>'decided_at' AS timestamptz) - make_interval(secs => :s))),"
        " '{valid_until}',"
        " to_jsonb(CAST(state->>'valid_until' AS timestamptz) - make_interval(secs => :s)))",
        s=seconds,
    )


def claims(one: Rig, most: int) -> int:
    job = one.submit([f"text {n}" for n in range(40)], key="claims", chunk_items=1).job
    with one.database.transaction() as tx:
        found = [claim(tx, job, one.wiring.pools.named("main"), "w#1", 60) for _ in range(most)]
    return sum(isinstance(c, Claimed) for c in found)


def test_a_tick_writes_limit_and_decision_together(rig: MakeRig) -> None:
    one = rig(pools=SMALL)
    decision = one.wiring.throttling.tick("main")
    assert decision is not None
    assert one.rows("SELECT value, reason FROM throttle_limits") == one.rows(
        "SELECT value, reason FROM throttle_decisions"
    )
    assert one.one("SELECT valid_until > now() FROM throttle_limits")


def test_a_tick_that_comes_at_once_again_does_nothing(rig: MakeRig) -> None:
    one = rig(pools=SMALL)
    assert one.wiring.throttling.tick("main") is not None
    assert one.wiring.throttling.tick("main") is None


def test_controllers_that_tick_together_decide_once(rig: MakeRig) -> None:
    rigs = [rig(pools=SMALL) for _ in range(4)]
    threads = [threading.Thread(target=one.wiring.throttling.tick, args=("main",)) for one in rigs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert rigs[0].one("SELECT count(*) FROM throttle_decisions") == 1


def test_every_decision_replays_exactly(rig: MakeRig) -> None:
    one = rig(pools=SMALL)
    for _ in range(5):
        one.wiring.throttling.tick("main")
        age_decision(one, 1.0)
    rows = one.rows("SELECT arguments, result FROM throttle_decisions")
    assert len(rows) == 5
    for arguments, result in rows:
        from datetime import datetime

        again = decide(
            State.from_json(arguments["state"]),
            None if arguments["reading"] is None else Reading.from_json(arguments["reading"]),
            PolicySettings.from_json(arguments["policy"]),
            Bounds.from_json(arguments["bounds"]),
            datetime.fromisoformat(arguments["now"]),
            override=arguments["override"],
            deadline_places=arguments["deadline_places"],
        )
        assert again == Decision.from_json(result)


def test_a_silent_controller_means_the_floor(rig: MakeRig) -> None:
    one = rig(pools=SMALL)
    one.wiring.throttling.tick("main")
    age_decision(one, 3600)
    assert claims(one, 5) == 1


def test_a_clock_that_goes_back_an_hour_means_the_floor_and_then_goes_on(rig: MakeRig) -> None:
    one = rig(pools=SMALL)
    one.wiring.throttling.tick("main")
    age_decision(one, -3600)
    assert claims(one, 5) == 1
    decision = one.wiring.throttling.tick("main")
    assert decision is not None
    assert (decision.limit, decision.reason) == (1, "stale")
    age_decision(one, 1.0)
    after = one.wiring.throttling.tick("main")
    assert after is not None
    assert after.reason != "stale"


def test_an_override_holds_for_its_time_and_not_longer(rig: MakeRig) -> None:
    one, other = rig(pools=SMALL), rig(pools=SMALL)
    one.wiring.steering.override("main", 5, 600, "a test")
    decision = other.wiring.throttling.tick("main")
    assert decision is not None
    assert (decision.limit, decision.reason) == (5, "override")
    assert claims(one, 7) == 5
    one.execute("UPDATE throttle_limits SET override_until = now() - interval '1 second'")
    age_decision(one, 1.0)
    after = other.wiring.throttling.tick("main")
    assert after is not None
    assert after.reason != "override"
    with pytest.raises(errors.UsageError, match="allows 1 to 7"):
        one.wiring.steering.override("main", 8, 600, None)


def test_settings_tuned_at_run_time_hold_in_every_process_at_once(rig: MakeRig) -> None:
    one, other = rig(pools=SMALL), rig(pools=SMALL)
    one.limit(7)
    changes = {"batch_max": 3, "policy": "static", "target_p95_ms": 250.0}
    one.wiring.steering.tune("main", {**changes, "short_output_tokens": 32})
    assert claims(other, 7) == 3
    decision = other.wiring.throttling.tick("main")
    assert decision is not None
    assert decision.reason == "fixed"
    assert other.wiring.inspection.pool("main").target_p95_ms == 250
    policy = one.one("SELECT arguments->'policy' FROM throttle_decisions")
    assert policy["short_output_tokens"] == 32
    other.wiring.steering.untune("main")
    assert one.wiring.inspection.pool("main").batch_max == 7


def test_tuning_refuses_what_leaves_no_lawful_limit(rig: MakeRig) -> None:
    one = rig(pools=SMALL)
    with pytest.raises(errors.ConfigError, match="reserve"):
        one.wiring.steering.tune("main", {"reserve": 0})
    with pytest.raises(errors.UnknownName, match=r"'traget'; known: .*target_p95_ms"):
        one.wiring.steering.tune("main", {"traget": 3})
    with pytest.raises(errors.UnknownName, match="no policy 'magic'"):
        one.wiring.steering.tune("main", {"policy": "magic"})
    assert one.one("SELECT count(*) FROM throttle_limits WHERE tuned IS NOT NULL") == 0


def test_people_who_come_between_two_ticks_lower_the_limit_at_the_next_claim(
    rig: MakeRig,
) -> None:
    one = rig(pools=SMALL)
    for _ in range(12):
        one.wiring.throttling.tick("main")
        age_decision(one, 1.0)
    with one.database.transaction() as tx:
        from app.storage.limit_store import LimitStore

        row = LimitStore(tx).lock("main")
        assert row is not None
        now = row.now
        until = (now + timedelta(minutes=5)).isoformat()
        told = {"capacity": 7.0, "limit": 7, "reason": "growing", "valid_until": until}
        state = State.from_json({**row.state.to_json(), **told, "decided_at": now.isoformat()})
        tx.exec_driver_sql(
            "UPDATE throttle_limits SET state = %s::jsonb",
            (orjson.dumps(state.to_json()).decode(),),
        )
    one.execute(
        "INSERT INTO interactive_requests (id, pool, task_type, model, state, submitted_at,"
        " lease_until, endpoint) SELECT gen_random_uuid(), 'main', 'chat', 'm', 'running', now(),"
        " now() + interval '1 minute', 'sim' FROM generate_series(1, 4)"
    )
    expected = limit_now(state, 4, one.wiring.pools.named("main").bounds, now)
    assert claims(one, 7) == expected < 7


def test_a_deadline_tells_the_policy_how_many_places_it_needs(
    rig: MakeRig,
) -> None:
    one = rig(pools=[{"name": "main", "total": 32, "batch_max": 31, "policy": "static"}])
    one.submit([f"text {n}" for n in range(500)], deadline_at=clock.now() + timedelta(hours=1))
    one.execute(
        "UPDATE chunks SET ok = 10, held_s = 10000, state = 'ready' WHERE no = 1;"
        " UPDATE jobs SET state = 'running'"
    )
    one.wiring.steering.tune("main", {"options.cap": 2.0, "policy": "static"})
    decision = one.wiring.throttling.tick("main")
    assert decision is not None
    arguments = one.one("SELECT arguments FROM throttle_decisions")
    assert arguments["deadline_places"] > 10  # 490 items at 1,000 s each within the hour


def test_batch_calls_are_timed_and_people_few_are_spoken_for_by_them(rig: MakeRig) -> None:
    one = rig(pools=SMALL)
    one.work(one.submit([f"text {n}" for n in range(40)]).job.id)
    request = JobRequest("generate", {"model": "fake-chat", "max_tokens": 32}, key="answers")
    long = "this text goes on and on about one thing and another without ever coming to an end and "
    job_id = one.wiring.submission.submit(request, Texts([long * 4] * 5)).job.id
    one.work(job_id)

    calls = one.rows(
        "SELECT count(*), count(first_token_s), sum(items), bool_and(seconds > 0) FROM batch_calls"
    )
    assert calls == [(4 + 5, 5, 45, True)]
    decision = one.wiring.throttling.tick("main")
    assert decision is not None
    reading = one.one("SELECT arguments->'reading' FROM throttle_decisions")
    assert reading["batch_samples"] == 5
    assert reading["batch_x_p95"] > 0
    assert reading["batch_per_s"] * reading["window_s"] == pytest.approx(
        one.progress(job_id).completion_tokens + one.one("SELECT sum(prompt_tokens) FROM chunks")
    )
    assert reading["batch_round_trip_ms"] > 0


def test_a_failed_call_is_noted_with_its_code(rig: MakeRig) -> None:
    one = rig(pools=SMALL)
    one.endpoint.order({"kind": "status", "status": 500, "remaining": 2})  # The probe's, too.
    one.wiring.execution.run(one.submit([f"text {n}" for n in range(10)]).job.id)
    assert one.rows("SELECT error_code, items FROM batch_calls") == [("server_error", 10)]
