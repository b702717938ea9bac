"""Rules for pools, endpoints, leases, jobs and webhooks, and the order of what is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.domain.examination import work as rules
from app.domain.examination.findings import (
    Code,
    Finding,
    Severity,
    error,
    passes,
    span,
    warning,
    well,
    worst_first,
)
from app.domain.examination.work import EndpointNow, JobNow, PoolNow, Receiver
from app.domain.health import Breaker
from app.domain.jobs import PAUSED_BY_HAND

PAGE = Path(__file__).parents[4] / "docs" / "howto" / "doctor.md"
GOOD = PoolNow(
    name="main",
    decided_s=1.0,
    in_force=True,
    limit=7,
    batch=3,
    workers=1,
    people=2,
    queued=1,
    jobs_wait_s=0.0,
    people_wait_s=0.5,
    lease_s=20.0,
    call_s=2.0,
    lapsed=0,
    lapsed_s=0.0,
)
SERVES = EndpointNow(
    "sim", "main", "primary", Breaker.CLOSED, cooling=False, draining=False, code=None
)


def pool(**changes: Any) -> PoolNow:
    return replace(GOOD, **changes)


def endpoint(**changes: Any) -> EndpointNow:
    return replace(SERVES, **changes)


def severities(found: list[Finding]) -> list[str]:
    assert all((one.right is None) is (one.severity is Severity.OK) for one in found)
    return [one.severity.value for one in found]


@pytest.mark.parametrize(
    ("pools", "expected"),
    [
        ([GOOD], ["ok"]),
        ([pool(in_force=False, decided_s=99.0)], ["error"]),
        ([pool(name="other")], ["error"]),
        ([], ["error"]),
    ],
)
def test_each_declared_pool_has_a_decision_in_force(
    pools: list[PoolNow], expected: list[str]
) -> None:
    assert severities(rules.decisions(pools, {"main"})) == expected


@pytest.mark.parametrize(
    ("everyone", "expected"),
    [
        ([SERVES], ["ok"]),
        ([endpoint(cooling=True)], ["ok"]),
        ([], ["error"]),
        ([endpoint(draining=True)], ["error"]),
        ([endpoint(breaker=Breaker.OPEN, code="timeout")], ["warning", "error"]),
        ([endpoint(breaker=Breaker.HALF_OPEN), endpoint(name="two")], ["warning"]),
        ([endpoint(draining=True), endpoint(name="two", role="backup")], ["warning"]),
        ([SERVES, endpoint(name="x", pool="gone", breaker=Breaker.OPEN)], ["ok"]),
    ],
)
def test_each_pool_has_an_endpoint_that_gets_work(
    everyone: list[EndpointNow], expected: list[str]
) -> None:
    assert severities(rules.endpoints(everyone, {"main"}, ())) == expected


def test_a_scaled_pool_may_be_without_an_endpoint() -> None:
    assert severities(rules.endpoints([], {"main"}, {"main"})) == ["ok"]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (GOOD, ["ok"]),
        (pool(people=0, people_wait_s=11.0), ["error"]),
        (pool(people=0, people_wait_s=9.0), ["ok"]),
        (pool(people=0, queued=0, people_wait_s=11.0), ["ok"]),
        (pool(batch=0, jobs_wait_s=61.0), ["warning"]),
        (pool(batch=1, jobs_wait_s=61.0), ["ok"]),
        (pool(batch=0, jobs_wait_s=61.0, limit=0), ["ok"]),
        (pool(batch=0, jobs_wait_s=61.0, in_force=False), ["ok"]),
        (pool(lease_s=400.0, call_s=400.0), ["warning"]),
        (pool(lease_s=400.0, call_s=None), ["warning"]),
        (pool(lease_s=20.0, call_s=400.0), ["ok"]),
        (pool(lease_s=400.0, call_s=2.0), ["ok"]),
        (pool(batch=0, lease_s=400.0, call_s=400.0), ["ok"]),
    ],
)
def test_who_waits_is_served_and_what_is_held_is_worked_on(
    one: PoolNow, expected: list[str]
) -> None:
    assert severities(rules.progress([one], {"main"}, call_timeout_s=120.0)) == expected


def test_jobs_that_wait_for_dead_endpoints_are_no_fault_of_the_workers() -> None:
    stands = pool(batch=0, jobs_wait_s=600.0)

    assert severities(rules.progress([stands], set(), call_timeout_s=120.0)) == ["ok"]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (pool(lapsed=2, lapsed_s=31.0), ["error"]),
        (pool(lapsed=2, lapsed_s=3.0), ["ok"]),
        (GOOD, ["ok"]),
    ],
)
def test_a_chunk_that_nobody_takes_back_is_overdue(one: PoolNow, expected: list[str]) -> None:
    assert severities(rules.leases([one])) == expected


def a_job(state: str = "paused", reason: str | None = None, homeless: bool = False) -> JobNow:
    return JobNow("nightly", state, "main", reason, 4000.0, homeless)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ([], ["ok"]),
        ([a_job()], ["ok"]),
        ([a_job(reason=PAUSED_BY_HAND)], ["ok"]),
        ([a_job(reason="budget: spent 2.00 of 2.00")], ["warning"]),
        ([a_job(state="loading")], ["warning"]),
        ([a_job(state="ready", homeless=True)], ["error"]),
        ([a_job(reason="quota") for _ in range(13)], ["warning"] * 11),
    ],
)
def test_a_job_that_waits_for_somebody_is_named_with_its_reason(
    held: list[JobNow], expected: list[str]
) -> None:
    assert severities(rules.jobs(held)) == expected


@pytest.mark.parametrize(
    ("receiver", "expected"),
    [
        (Receiver("a.example", 0, 0, 0.0, None), ["ok"]),
        (Receiver("a.example", 0, 0, 119.0, None), ["ok"]),
        (Receiver("a.example", 1, 0, 0.0, 500), ["warning"]),
        (Receiver("a.example", 0, 1, 0.0, None), ["warning"]),
        (Receiver("a.example", 0, 0, 121.0, None), ["warning"]),
    ],
)
def test_a_webhook_that_is_not_heard_is_said(receiver: Receiver, expected: list[str]) -> None:
    assert severities(rules.webhooks([receiver])) == expected


def test_the_worst_comes_first_and_only_errors_fail_unless_asked_for_more() -> None:
    good = well(Code.DATABASE, "a", "b")
    bad = warning(Code.BROKER, "a", "b", "c")
    worse = error(Code.WEBHOOKS, "a", "b", "c")

    assert worst_first([good, bad, worse]) == [worse, bad, good]
    assert passes([good, bad], strict=False)
    assert not passes([good, bad], strict=True)
    assert not passes([good, worse], strict=False)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(4.2, "4 s"), (119.0, "119 s"), (720.0, "12 min"), (7200.0, "2 h"), (259_200.0, "3 days")],
)
def test_a_length_of_time_is_rough(seconds: float, said: str) -> None:
    assert span(seconds) == said


def test_every_check_stands_on_the_page() -> None:
    page = PAGE.read_text()

    assert [code for code in Code if f"| `{code}` |" not in page] == []
