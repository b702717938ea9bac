"""Why batch waits, in one sentence; and a stored decision made again."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.domain.throttle.decide import decide
from app.domain.throttle.explain import explain
from app.domain.throttle.policies import registered
from app.domain.throttle.readings import Reading
from app.domain.throttle.replay import Arguments, differences, replayed
from app.domain.throttle.values import Bounds, Decision, PolicySettings, Reason, State

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
BOUNDS = Bounds(total=8, reserve=1, batch_min=1, batch_max=7, pool="main")
POLICY = PolicySettings(target_p95_ms=500)
READING = Reading(
    NOON, p95_ms=740.0, samples=20, misses=9, nears=12, batch_in_flight=5, interactive_in_flight=3
)


def decided(reason: Reason, limit: int = 4, **figures: str) -> Decision:
    state = State(limit, reason, NOON, NOON + timedelta(seconds=5))
    return Decision(limit, 1.5, reason, state, figures)


def said(decision: Decision, reading: Reading | None = READING, after_s: float = 1) -> str:
    return explain(decision, reading, POLICY, BOUNDS, NOON + timedelta(seconds=after_s))


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_sentence(reason: Reason) -> None:
    sentence = said(decided(reason))

    assert sentence.startswith("Pool 'main' lets 4 batch requests in flight (5 are in flight), ")
    assert sentence.endswith(".")
    assert ", because " in sentence
    assert reason.value not in sentence or "_" not in reason.value


def test_the_sentence_has_the_figures_of_the_people() -> None:
    assert "P95 740 ms, target 500 ms, 9 of 20 over it" in said(decided(Reason.OVERLOAD))


def test_nobody_there_is_said_as_such() -> None:
    quiet = replace(READING, p95_ms=None, interactive_in_flight=0, misses=0)

    assert "no requests in the last 10 s" in said(decided(Reason.GROWING), quiet)


def test_a_reading_in_doubt_is_named() -> None:
    assert "(a reading 9 s old)" in said(decided(Reason.STALE, doubt="a reading 9 s old"))


def test_a_silent_controller_is_the_answer_once_its_word_has_run_out() -> None:
    sentence = said(decided(Reason.GROWING), after_s=65)

    assert "floor of 1 batch request, because no decision has been in force for 60 s" in sentence


def stored(policy: str, reading: Reading | None = READING) -> tuple[dict, dict]:
    """Arguments and result as they come back from the database."""
    before, settings = State(limit=3, decided_at=NOON, capacity=5.0), replace(POLICY, name=policy)
    now = NOON + timedelta(seconds=1)
    result = decide(before, reading, settings, BOUNDS, now, override=None)
    arguments = {
        "state": before.to_json(),
        "reading": None if reading is None else reading.to_json(),
        "policy": settings.to_json(),
        "bounds": BOUNDS.to_json(),
        "now": now.isoformat(),
        "override": None,
        "deadline_places": None,
    }
    return json.loads(json.dumps(arguments)), json.loads(json.dumps(result.to_json()))


@pytest.mark.parametrize("policy", sorted(registered()))
@pytest.mark.parametrize("reading", [READING, None, replace(READING, p95_ms=math.nan)])
def test_a_stored_decision_comes_out_the_same_again(policy: str, reading: Reading | None) -> None:
    assert differences(*stored(policy, reading)) == {}


def test_a_decision_that_comes_out_otherwise_is_named_by_its_member() -> None:
    arguments, result = stored("budget")
    now = replayed(Arguments.from_json(arguments)).limit
    result["limit"], result["state"]["green_ticks"] = 99, 77

    assert differences(arguments, result) == {"limit": (99, now), "state.green_ticks": (77, 0)}
