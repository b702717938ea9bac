"""Retention takes what is old and leaves what is not, or not finished."""

from __future__ import annotations

from app.services.retention import Periods, Retention
from tests.rig import MakeRig

AN_HOUR = Periods(3600, 3600, 3600)


def test_old_requests_calls_and_decisions_go_and_open_requests_stay(rig: MakeRig) -> None:
    one = rig()
    one.execute(
        "INSERT INTO interactive_requests (id, pool, task_type, model, state, submitted_at)"
        " SELECT gen_random_uuid(), 'main', 'chat', 'm', state, now() - age"
        " FROM (VALUES ('done', interval '3 h'), ('done', interval '1 min'),"
        " ('running', interval '3 h')) AS t (state, age);"
        "INSERT INTO batch_calls (job_id, pool, endpoint, ended_at, seconds, items)"
        " SELECT 1, 'main', 'e', now() - age, 1, 1"
        " FROM (VALUES (interval '3 h'), (interval '1 min')) AS t (age);"
        "INSERT INTO throttle_decisions (pool, computed_at, value, pressure, reason, arguments,"
        " result) SELECT 'main', now() - age, 1, 0, 'stale', '{}', '{}'"
        " FROM (VALUES (interval '3 h'), (interval '1 min')) AS t (age);"
        "INSERT INTO events (at, type, facts) SELECT now() - age, 'limit_moved', '{}'"
        " FROM (VALUES (interval '3 h'), (interval '1 min')) AS t (age)"
    )
    assert Retention(one.database, AN_HOUR).prune() == 4
    assert sorted(one.rows("SELECT state FROM interactive_requests")) == [("done",), ("running",)]
    assert one.one("SELECT count(*) FROM batch_calls") == 1
    assert one.one("SELECT count(*) FROM throttle_decisions") == 1
    assert one.one("SELECT count(*) FROM events") == 1
    assert Retention(one.database, AN_HOUR).prune() == 0
