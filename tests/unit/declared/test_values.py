"""Units and sums: what is kept how long, what a call holds, what a doctor expects."""

from __future__ import annotations

from typing import Any

from app.declared.batch import limits_of
from app.declared.installation import installation_of
from app.declared.merging import rule_of
from app.declared.pools import pools_of
from app.declared.retention import periods_of
from app.declared.standing import rules_of
from app.domain.health import HealthPolicy
from app.domain.merging import MergeRule
from app.domain.retry import RetryPolicy
from app.services.examining import Installation
from app.services.retention import Periods
from app.services.work import BatchLimits
from app.settings import Settings

HEALTH = {
    "failures_to_open": 2,
    "open_s": 3.0,
    "open_max_s": 4.0,
    "probe_timeout_s": 5.0,
    "slow_factor": 6.0,
    "slow_window_s": 7.0,
}


def settings(**said: Any) -> Settings:
    return Settings.model_validate(said)


def expected(**said: Any) -> Installation:
    """What is expected where a command has four threads."""
    one = settings(**said)
    return installation_of(one, pools_of(one), 4)


def test_hours_and_days_become_seconds() -> None:
    said = settings(
        interactive={"keep_requests_h": 1},
        throttle={"keep_decisions_h": 2},
        retention={"keep_events_days": 1, "keep_jobs_days": 2, "keep_deliveries_days": 3},
    )

    assert periods_of(said) == Periods(3_600, 7_200, 86_400, 172_800, 259_200)


def test_a_merged_call_waits_milliseconds_and_holds_a_micro_batch_of_tokens() -> None:
    said = settings(
        batch={"micro_batch_items": 3, "micro_batch_tokens": 400, "call_timeout_s": 5},
        merging={"wait_ms": 20, "most_texts": 6},
    )

    assert limits_of(said) == BatchLimits(3, 400, 5.0)
    assert rule_of(said) == MergeRule(0.02, 6, 400)


def test_endpoints_are_judged_as_health_and_batch_say() -> None:
    batch = {"max_attempts": 2, "retry_base_s": 3, "retry_max_s": 4}
    rules = rules_of(settings(batch=batch, health=HEALTH), lambda: 0.5)

    assert (rules.retry, rules.health) == (RetryPolicy(2, 3, 4), HealthPolicy(**HEALTH))
    assert rules.jitter() == 0.5


def test_a_process_has_two_connections_more_than_threads_and_forty_at_most() -> None:
    worker = {"batch_concurrency": 50, "interactive_concurrency": 20}

    assert expected(worker=worker, interactive={"processes": 1}).connections == {
        "interactive": 24,  # With those of the lane: one a pool, and one for its leases.
        "batch": 40,
        "control": 10,
        "a command": 6,
    }
    few = expected(database={"connections": 3}, interactive={"processes": 2}).connections
    assert few == {"interactive": 10, "batch": 3, "control": 3, "a command": 3}


def test_a_doctor_is_not_told_the_password() -> None:
    assert expected(database={"url": "postgresql://u:hunter2@h/d"}).where == (
        "postgresql://u:***@h/d"
    )
    assert expected().where == "database"


def test_a_doctor_knows_pools_that_may_be_empty_and_how_long_a_message_may_be_held() -> None:
    said = expected(
        pools=[{"name": "a"}, {"name": "b"}],
        scaling=[{"pool": "b", "command": ["serve"]}],
        interactive={"deadline_s": 30, "call_timeout_s": 40},
    )

    assert (said.pools, said.scaled) == ({"a", "b"}, {"b"})
    assert said.longest_s == 70
