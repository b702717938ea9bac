"""Rules for the broker, and for the ticks that come through it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.domain.examination import broker as rules
from app.domain.examination.broker import Broker
from app.domain.examination.findings import Severity

VALKEY = Broker(
    "redis://:***@host:6379/0",
    server="Valkey 9.1.0",
    answers_ms=0.4,
    policy="noeviction",
    visible_s=300.0,
    waiting={"interactive": 0, "batch": 1234, "control": 0},
)
RABBITMQ = Broker("amqp://me:***@host//", server="RabbitMQ 4.0.1")


def but(**changes: Any) -> Broker:
    return replace(VALKEY, **changes)


def test_one_that_answers_says_what_waits_in_it() -> None:
    (found,) = rules.broker(VALKEY)

    assert found.severity is Severity.OK
    assert found.what == (
        "Valkey 9.1.0 answers in 0 ms; waiting: interactive 0, batch 1,234, control 0"
    )


def test_one_that_does_not_answer_is_an_error_and_nothing_else_is_said_of_it() -> None:
    away = Broker("redis://host", why_not="Connection refused")

    assert [one.severity for one in rules.broker(away)] == [Severity.ERROR]
    assert rules.eviction(away) == rules.visibility(away, 100.0) == []


def test_a_queue_that_others_declared_is_told_in_a_sentence_with_what_ends_it() -> None:
    one = replace(RABBITMQ, otherwise={"interactive": "x-max-priority is 9, not none"})
    (found,) = rules.queues(one)

    assert (found.severity, found.where) == (Severity.WARNING, "queue interactive")
    assert "x-max-priority is 9, not none; it is used as it is" in found.what
    assert "rabbitmqctl delete_queue interactive" in (found.right or "")
    assert [one.severity for one in rules.queues(VALKEY)] == [Severity.OK]
    assert rules.queues(Broker("amqp://host", why_not="Connection refused")) == []


def test_a_replica_takes_no_messages() -> None:
    assert [one.severity for one in rules.broker(but(read_only=True))] == [Severity.ERROR]


@pytest.mark.parametrize(
    ("one", "severities"),
    [
        (VALKEY, ["ok"]),
        (RABBITMQ, []),
        (but(policy="allkeys-lru", most_bytes=10), ["error"]),
        (but(policy="allkeys-lru"), ["warning"]),
        (but(policy="volatile-ttl", most_bytes=10), ["warning"]),
        (but(used_bytes=79, most_bytes=100), ["ok"]),
        (but(used_bytes=80, most_bytes=100), ["warning"]),
        (but(policy="allkeys-lru", used_bytes=9, most_bytes=10), ["error", "warning"]),
    ],
)
def test_a_queue_must_never_be_evicted_nor_redis_be_full(
    one: Broker, severities: list[str]
) -> None:
    assert [found.severity for found in rules.eviction(one)] == severities


@pytest.mark.parametrize(
    ("one", "longest_s", "severities"),
    [(VALKEY, 299.0, ["ok"]), (VALKEY, 300.0, ["error"]), (RABBITMQ, 9e9, [])],
)
def test_a_message_may_not_come_again_while_it_is_held(
    one: Broker, longest_s: float, severities: list[str]
) -> None:
    assert [found.severity for found in rules.visibility(one, longest_s)] == severities


@pytest.mark.parametrize(
    ("decided_s", "waiting", "severity", "right"),
    [
        (1.0, {}, "ok", None),
        (11.0, {"control": 0}, "error", "start beat: no tick waits in the control queue"),
        (11.0, {"control": 90}, "error", "start the control worker: nobody takes beat's ticks"),
        (11.0, {}, "error", "see that beat and the control worker run"),
        (None, {}, "error", "see that beat and the control worker run"),
    ],
)
def test_old_decisions_tell_who_is_away(
    decided_s: float | None, waiting: dict[str, int], severity: str, right: str | None
) -> None:
    (found,) = rules.ticks(decided_s, 10.0, waiting)

    assert (found.severity, found.right) == (severity, right)
