"""`giveway health`: a worker is judged by what gets done, and not by what nobody could do."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from app.services import inspection
from app.storage.limit_store import LimitStore
from tests.commands import giveway
from tests.rig import Rig

AWAY = {
    "cooling": "UPDATE endpoints SET cool_until = now() + interval '1 hour', refusals = 1",
    "open": "UPDATE endpoints SET breaker = 'open', open_until = now() + interval '1 hour'",
    "draining": "UPDATE endpoints SET draining = true",
}
HELD = {
    "for its hours": """UPDATE jobs SET "window" = jsonb_build_object(
        'from', to_char(now() + interval '2 hours', 'HH24:MI'),
        'to', to_char(now() + interval '3 hours', 'HH24:MI'), 'timezone', 'UTC')""",
    "for a retry": "UPDATE chunks SET not_before = now() + interval '1 hour'",
    "for a person": "UPDATE jobs SET state = 'paused'",
    "for its own cap": "UPDATE jobs SET max_in_flight = 0",
}


def healthy(queue: str) -> bool:
    ran = giveway("health", queue, "--json")
    assert ran.document["ok"] is (ran.code == 0), ran.err
    return ran.code == 0


def test_work_that_nobody_claims_is_a_fault_until_somebody_does(stack: Rig) -> None:
    assert healthy("batch")
    job_id = stack.submit([f"text {n}" for n in range(200)]).job.id
    told = giveway("health", "batch")
    assert (told.code, "job job has work, places are free, nothing is claimed" in told.out) == (
        1,
        True,
    )
    stack.wiring.execution._claim(job_id)
    assert healthy("batch")


@pytest.mark.parametrize("why", [*AWAY, *HELD])
def test_what_waits_for_something_else_is_no_fault_of_the_worker(stack: Rig, why: str) -> None:
    """Or its container would be called unhealthy while a provider is down."""
    stack.submit([f"text {n}" for n in range(200)])
    assert not healthy("batch")
    stack.execute((AWAY | HELD)[why])
    assert healthy("batch")


def test_a_job_of_a_dead_endpoint_does_not_hide_one_that_could_run(
    stack: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "places_for", lambda job, *_: job.key == "can")
    stack.submit(["a text"], key="can")
    stack.submit(["another"], key="cannot")
    told = giveway("health", "batch", "--json").document
    assert told["faults"] == [
        "pool main: job can has work, places are free, nothing is claimed",
    ]


WAITING = text("""
    INSERT INTO interactive_requests (id, pool, task_type, model, state, submitted_at, lease_until)
    VALUES (gen_random_uuid(), 'main', 'chat', 'fake-chat', 'queued', now(),
            now() + interval '1 minute')
""")


def test_people_who_wait_unserved_are_a_fault_where_they_could_be_served(stack: Rig) -> None:
    assert healthy("interactive")
    with stack.database.transaction() as tx:
        tx.execute(WAITING)
    assert not healthy("interactive")
    stack.execute(AWAY["open"])
    assert healthy("interactive")


def test_a_controller_that_decides_nothing_is_a_fault(stack: Rig) -> None:
    assert healthy("control")
    with stack.database.transaction() as tx:
        assert LimitStore(tx).lock("main") is not None
        tx.execute(
            text(
                "UPDATE throttle_limits SET state = jsonb_set(state, '{valid_until}',"
                " to_jsonb(now() - interval '1 second'))"
            )
        )
    told = giveway("health", "control")
    assert (told.code, "no decision is in force" in told.out) == (1, True)
