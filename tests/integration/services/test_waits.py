"""Why a job waits, made in the tables one after the other, and read where jobs are shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.declared.endpoints import endpoint_of
from app.domain.waiting import NEEDS_SOMEBODY, Hold
from app.services.submission import JobRequest
from app.services.waits import stuck
from tests.rig import MakeRig, Rig, Texts


def lease(one: Rig, key: str) -> None:
    """A live lease on a chunk of the job."""
    one.execute(
        "UPDATE chunks SET state = 'leased', endpoint = 'sim', worker = 'w', leased_at = now(),"
        " lease_until = now() + interval '1 min' WHERE no = 1 AND job_id ="
        " (SELECT id FROM jobs WHERE key = :key)",
        key=key,
    )


def people(one: Rig, count: int, endpoint: str) -> None:
    """So many, whom it serves now."""
    one.execute(
        "INSERT INTO interactive_requests (id, pool, task_type, model, endpoint, state,"
        " submitted_at, started_at, lease_until) SELECT gen_random_uuid(), 'main', 'chat',"
        " 'fake-chat', :endpoint, 'running', now(), now(), now() + interval '1 min'"
        " FROM generate_series(1, :count)",
        endpoint=endpoint,
        count=count,
    )


MAKES: dict[Hold, Callable[[Rig], Any]] = {
    Hold.LOADING: lambda one: one.execute("UPDATE jobs SET state = 'loading'"),
    Hold.PAUSED_BY_HAND: lambda one: one.wiring.steering.pause("job"),
    Hold.PAUSED: lambda one: one.execute(
        "UPDATE jobs SET state = 'paused', reason = 'auth: no key'"
    ),
    Hold.AFTER_JOBS: lambda one: one.execute("UPDATE jobs SET after = '{999}'"),
    Hold.OUTSIDE_WINDOW: lambda one: one.execute(
        "UPDATE jobs SET \"window\" = jsonb_build_object('timezone', 'UTC',"
        " 'from', to_char(now() AT TIME ZONE 'UTC' + interval '2 h', 'HH24:MI'),"
        " 'to', to_char(now() AT TIME ZONE 'UTC' + interval '3 h', 'HH24:MI'))"
    ),
    Hold.FINISHING: lambda one: one.execute("UPDATE chunks SET state = 'done'"),
    Hold.POOL_GONE: lambda one: one.execute("UPDATE jobs SET pool = 'gone'"),
    Hold.NO_WORKER: lambda one: one.execute("DELETE FROM workers"),
    Hold.UNKNOWN_KIND: lambda one: one.execute("UPDATE workers SET kinds = '{generate}'"),
    Hold.UNKNOWN_MODEL: lambda one: one.execute(
        'UPDATE workers SET serves = \'{"main": ["older"]}\''
    ),
    Hold.NO_ENDPOINT: lambda one: (
        one.execute("UPDATE jobs SET model = 'm'"),
        one.execute('UPDATE workers SET serves = \'{"main": ["m"]}\''),
    ),
    Hold.ENDPOINTS_AWAY: lambda one: one.execute(
        "UPDATE endpoints SET breaker = 'open', error_code = 'connection',"
        " open_until = now() + interval '1 min'"
    ),
    Hold.RETRY_LATER: lambda one: one.execute(
        "UPDATE chunks SET not_before = now() + interval '1 min'"
    ),
    Hold.OPERATOR_LIMIT: lambda one: (
        one.wiring.steering.override("main", 1, 600.0, "night"),
        one.wiring.throttling.tick_all(),
        one.submit(["x"], key="other"),
        lease(one, "other"),
    ),
    Hold.LIMIT_REACHED: lambda one: (
        one.submit(["x"], key="other"),
        one.limit(1),
        lease(one, "other"),
    ),
    Hold.PLACES_TAKEN: lambda one: people(one, 64, "other"),
    Hold.ENDPOINTS_FULL: lambda one: people(one, 32, "sim"),
    Hold.TURN: lambda one: (one.limit(1), one.submit(["x"], key="urgent", priority=9)),
    Hold.NO_TICKS: lambda one: one.execute(
        "UPDATE throttle_limits SET state = state - 'valid_until', valid_until = NULL"
    ),
    Hold.RINGING: lambda _: None,
}


def sound(rig: MakeRig) -> Rig:
    one = rig(batch={"chunk_items": 5}, pools=[{"name": "main", "total": 64, "batch_max": 63}])
    one.submit([f"text {n}" for n in range(20)])
    return one


@pytest.mark.parametrize("hold", [hold for hold in Hold if hold is not Hold.RATE_BUDGET])
def test_what_holds_a_job_is_said(rig: MakeRig, hold: Hold) -> None:
    one = sound(rig)
    MAKES[hold](one)
    view = one.wiring.inspection.job("job")

    assert view.why is not None
    assert (view.why.code, view.waits) == (hold, str(view.why))
    with one.database.transaction() as tx:
        told = [(job.key, why.code) for job, why in stuck(tx, one.wiring.pools)]
    assert told == ([("job", hold)] if hold in NEEDS_SOMEBODY else [])


def test_a_spent_rate_budget_is_said(rig: MakeRig) -> None:
    one = rig()
    spec = {
        **one._given["endpoints"][0],
        "requests_per_minute": 10,
    }
    limited = rig(endpoints=[spec])
    limited.submit(["a text"])
    limited.execute("UPDATE endpoints SET spent_until = now() + interval '1 min'")
    why = limited.wiring.inspection.job("job").why

    assert why is not None
    assert why.code is Hold.RATE_BUDGET


def test_a_job_at_work_waits_for_nothing(rig: MakeRig) -> None:
    one = sound(rig)
    lease(one, "job")

    assert one.wiring.inspection.job("job").why is None


@pytest.mark.parametrize("hold", [Hold.UNKNOWN_KIND, Hold.UNKNOWN_MODEL, Hold.ENDPOINTS_AWAY])
def test_nothing_is_rung_for_what_nobody_can_do(rig: MakeRig, hold: Hold) -> None:
    one = sound(rig)
    assert one.wiring.ringing._due(one.wiring.pools.named("main"))
    MAKES[hold](one)

    assert one.wiring.ringing._due(one.wiring.pools.named("main")) == []


def test_a_pool_or_a_kind_that_a_worker_does_not_know_is_no_fault_of_its_own(rig: MakeRig) -> None:
    one = sound(rig)
    job = one.job(1)
    one.execute("UPDATE jobs SET kind = 'from_tomorrow'")
    assert one.wiring.execution.run(job.id).ended == "unknown_kind"
    one.execute("UPDATE jobs SET pool = 'gone'")
    assert one.wiring.execution.run(job.id).ended == "pool_gone"


def test_an_endpoint_added_at_run_time_is_known_to_every_worker(rig: MakeRig) -> None:
    one = sound(rig)
    declared = {**one._given["endpoints"][0], "name": "late", "models": ["late-embed"]}
    one.wiring.endpoints.add(endpoint_of(declared))
    request = JobRequest("embed", {"model": "late-embed", "collection": "c"}, key="late")
    one.wiring.submission.submit(request, Texts(["a"]))
    why = one.wiring.inspection.job("late").why

    assert why is not None
    assert why.code is Hold.RINGING
    assert ("late", "embed") in [
        (one.job(job).key, kind)
        for job, kind in one.wiring.ringing._due(one.wiring.pools.named("main"))
    ]
