"""C is what the pool has, and a deadline takes nothing from people who miss their target."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.domain.throttle.deadline import LEAST_PAUSE_S, MOST_PAUSE_S, STEP_S
from app.domain.throttle.decide import decide, limit_now
from app.domain.throttle.feedforward import blaming
from app.domain.throttle.readings import Reading
from app.domain.throttle.replay import differences
from app.domain.throttle.values import Bounds, Decision, PolicySettings, Reason, State

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
BOUNDS = Bounds(total=8, reserve=1, pool="small")
POLICY = PolicySettings(first_token_target_ms=500.0)
BEFORE = json.loads((Path(__file__).parent / "decisions_before.json").read_text())


def a_state(**values: object) -> State:
    state = State(
        limit=1,
        reason=Reason.LIMIT_UNUSED,
        decided_at=NOON - timedelta(seconds=1),
        valid_until=NOON + timedelta(seconds=9),
        capacity=8.0,
        slow_start=False,
        interactive_peak=7.0,
        interactive_level=6.0,
    )
    return replace(state, **values)  # type: ignore[arg-type]


def a_reading(x: float = 0.7, at: datetime = NOON, **values: object) -> Reading:
    reading = Reading(
        computed_at=at,
        samples=60,
        share_over_target=0.0 if x <= 1.0 else 0.3,
        misses=0 if x <= 1.0 else 18,
        nears=0 if x <= 1.0 else 18,
        x_p95=x,
        everybody_x_p95=x,
        interactive_in_flight=5,
        interactive_recent_peak=7,
        batch_in_flight=1,
    )
    return replace(reading, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("stored", BEFORE, ids=lambda stored: stored["name"])
def test_a_decision_of_the_version_before_replays_by_the_rules_of_its_day(
    stored: dict[str, Any],
) -> None:
    assert differences(stored["arguments"], stored["result"]) == {}


def test_a_decision_of_now_replays_by_the_rules_of_now() -> None:
    decided = decide(a_state(capacity=14.0), a_reading(), POLICY, BOUNDS, NOON, deadline_places=6)
    arguments = {
        "state": a_state(capacity=14.0).to_json(),
        "reading": a_reading().to_json(),
        "policy": POLICY.to_json(),
        "bounds": BOUNDS.to_json(),
        "now": NOON.isoformat(),
        "deadline_places": 6,
    }
    assert differences(arguments, decided.to_json()) == {}


@pytest.mark.parametrize("capacity", [None, 3.0, 8.0, 14.0, 21.0])
@pytest.mark.parametrize("people", [0, 5, 15, 60])
@pytest.mark.parametrize("x", [0.2, 0.95, 1.9])
def test_c_is_no_more_than_the_pool_has(capacity: float | None, people: int, x: float) -> None:
    state = a_state(capacity=capacity)
    crowd = a_reading(x, interactive_in_flight=people, interactive_recent_peak=people)
    for _ in range(30):
        state = decide(state, crowd, POLICY, BOUNDS, NOON).state
        assert (state.capacity or 0.0) <= BOUNDS.total


def test_a_c_that_was_stored_above_the_total_is_cut_down_wherever_it_is_used() -> None:
    """14 of 8 let the limit leap from 1 to 5 onto calls of eight seconds when people left."""
    stored, right = a_state(capacity=14.0), a_state(capacity=8.0)

    for people in (0, 1, 3, 8):
        assert limit_now(stored, people, BOUNDS, NOON) == limit_now(right, people, BOUNDS, NOON)
    assert limit_now(stored, 3, BOUNDS, NOON) == 1
    assert blaming(POLICY, stored, BOUNDS) == blaming(POLICY, right, BOUNDS)
    assert decide(stored, a_reading(), POLICY, BOUNDS, NOON) == decide(
        right, a_reading(), POLICY, BOUNDS, NOON
    )


BIG = Bounds(total=40, pool="big")


def played(*seconds: Reading, policy: PolicySettings = POLICY) -> list[Decision]:
    """Decisions a second apart, of a pool whose jobs with a deadline need 6 places all the time."""
    last, made = a_state(capacity=40.0, interactive_peak=39.0), []
    for second, reading in enumerate(seconds):
        at = NOON + timedelta(seconds=second)
        seen = replace(reading, computed_at=at, interactive_recent_peak=39)
        made.append(decide(last, seen, policy, BIG, at, deadline_places=6))
        last = made[-1].state
    return made


def floors(made: list[Decision]) -> list[int]:
    return [one.state.deadline_floor or 0 for one in made]


def test_a_deadline_holds_a_place_more_each_step_up_to_a_quarter_of_c() -> None:
    last, seen = a_state(capacity=40.0, interactive_peak=39.0), []
    for second in range(120):
        at = NOON + timedelta(seconds=second)
        busy = a_reading(at=at, interactive_in_flight=20, interactive_recent_peak=39)
        last = decide(last, busy, POLICY, BIG, at, deadline_places=30).state
        seen.append((last.deadline_floor or 0, last.limit))

    assert seen[0] == (2, 2)
    assert [floor for floor, _ in seen[:: int(STEP_S)]] == [2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10]
    assert last.reason is Reason.DEADLINE_FLOOR


def test_near_their_target_people_meet_no_further_place() -> None:
    assert floors(played(*[a_reading()] * 12)) == [2] * 10 + [3] * 2
    assert floors(played(*[a_reading(0.95)] * 30)) == [0] * 30
    assert floors(played(a_reading(), *[a_reading(0.95)] * 30)) == [2] * 31


LATE = {
    "misses": a_reading(1.9),
    "a queue that is nobody's fault": a_reading(
        samples=0, x_p95=None, not_attributable=40, everybody_x_p95=22.4, misses=0, nears=0
    ),
    "somebody who waits for a first token": a_reading(everybody_waits_s=0.6),
    "refusals": a_reading(refused=1),
}


@pytest.mark.parametrize("late", LATE)
def test_while_people_miss_their_target_a_deadline_holds_nothing(late: str) -> None:
    made = played(a_reading(), LATE[late], *[a_reading()] * 5)

    assert floors(made) == [2] + [0] * 6
    assert made[1].limit == BOUNDS.floor
    if late != "refusals":
        assert made[1].pressure > 1.0


def test_each_time_people_miss_it_because_of_a_deadline_it_stands_back_for_longer() -> None:
    state, at, pauses = a_state(), NOON, []
    for _ in range(6):
        for x in (0.7, 1.9):
            at += timedelta(seconds=1)
            state = decide(state, a_reading(x, at), POLICY, BOUNDS, at, deadline_places=6).state
        assert state.deadline_next_at is not None
        pauses.append((state.deadline_next_at - at).total_seconds())
        early = state.deadline_next_at - timedelta(seconds=1)
        state = replace(state, decided_at=early - timedelta(seconds=1))
        held = decide(state, a_reading(at=early), POLICY, BOUNDS, early, deadline_places=6)
        assert held.state.deadline_floor is None
        at = early + timedelta(seconds=1)
    assert pauses == [60.0, 120.0, 240.0, 480.0, 960.0, 960.0]
    assert (pauses[0], pauses[-1]) == (LEAST_PAUSE_S, MOST_PAUSE_S)


def test_a_pool_may_put_deadlines_before_people() -> None:
    policy = replace(POLICY, deadline_before_people=True)
    made = played(*[LATE["misses"]] * 3, policy=policy)

    assert floors(made)[0] == 6
    assert made[0].reason is Reason.DEADLINE_FLOOR
    assert limit_now(made[0].state, 40, BIG, NOON) == 6


def test_between_ticks_a_deadline_takes_no_place_that_somebody_waits_for() -> None:
    held = replace(a_state(), deadline_floor=2)

    assert limit_now(held, 6, BOUNDS, NOON) == 2
    assert limit_now(held, 8, BOUNDS, NOON) == 1
    assert limit_now(replace(held, deadline_first=True), 8, BOUNDS, NOON) == 2
