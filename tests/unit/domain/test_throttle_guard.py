"""The guard around every law, and what the registry says of names."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.domain.throttle.decide import decide, limit_now
from app.domain.throttle.kv import Kv
from app.domain.throttle.policies import check_options
from app.domain.throttle.readings import Reading
from app.domain.throttle.values import Bounds, PolicySettings, Reason, State
from app.errors import UnknownName

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
BOUNDS = Bounds(total=32, reserve=2)
IN_FORCE = State(
    limit=10,
    reason=Reason.GROWING,
    decided_at=NOON,
    valid_until=NOON + timedelta(seconds=10),
    capacity=20.0,
    slow_start=False,
)


def test_an_option_that_the_policy_does_not_have_is_refused_with_those_it_has() -> None:
    check_options("static", {"cap": 3.0})
    with pytest.raises(UnknownName, match=r"option of policy 'static' 'limit'; known: cap"):
        check_options("static", {"limit": 3.0})


def test_a_claim_before_any_decision_finds_the_floor() -> None:
    assert limit_now(State(), 0, BOUNDS, NOON) == 1


def test_a_claim_finds_the_floor_once_the_decision_is_out_of_date() -> None:
    assert limit_now(IN_FORCE, 0, BOUNDS, NOON + timedelta(seconds=11)) == 1
    assert limit_now(IN_FORCE, 0, BOUNDS, NOON - timedelta(seconds=5)) == 1


def test_people_who_come_take_their_places_at_the_next_claim() -> None:
    assert limit_now(IN_FORCE, 0, BOUNDS, NOON) == 20
    assert limit_now(IN_FORCE, 4, BOUNDS, NOON) < 20


def test_memory_bounds_the_claim_where_it_is_known() -> None:
    known = replace(IN_FORCE, kv=Kv(10_000, 500.0, 1_000.0), interactive_level=4.0)
    assert limit_now(known, 0, BOUNDS, NOON) == 8  # 9,200 − 1,000 kept free
    assert limit_now(known, 4, BOUNDS, NOON) == 6  # 4 people hold 2,000
    assert limit_now(replace(known, kv=Kv(None, 500.0, 1_000.0)), 0, BOUNDS, NOON) == 20
    assert limit_now(replace(known, kv=Kv(100.0, 500.0, 1_000.0)), 0, BOUNDS, NOON) == 1


@pytest.mark.parametrize("name", ["static", "pressure", "aimd", "vegas"])
def test_a_law_without_memory_of_capacity_is_what_claims_meet_also_after_budget(name: str) -> None:
    before = replace(IN_FORCE, quiet_limit=25.0, kv=Kv(2_000.0, 500.0, 1_000.0))
    later = NOON + timedelta(seconds=1)
    options = {"cap": 5.0} if name == "static" else {}
    policy = PolicySettings(name=name, options=options)

    decision = decide(before, Reading(computed_at=later), policy, BOUNDS, later)
    again = decide(decision.state, Reading(computed_at=later), PolicySettings(), BOUNDS, later)

    assert limit_now(decision.state, 0, BOUNDS, later) == decision.limit
    assert limit_now(decision.state, 9, BOUNDS, later) == decision.limit
    assert name != "static" or decision.limit == 5
    assert again.state.capacity is not None


def test_an_override_holds_at_the_claim_within_the_bounds() -> None:
    assert limit_now(replace(IN_FORCE, override=25), 9, BOUNDS, NOON) == 25
    assert limit_now(replace(IN_FORCE, override=99), 9, BOUNDS, NOON) == 30


def test_a_doubtful_state_is_not_trusted_at_the_claim() -> None:
    assert limit_now(replace(IN_FORCE, reason=Reason.STALE), 0, BOUNDS, NOON) == 1


def test_a_deadline_holds_a_quarter_of_the_capacity_at_most() -> None:
    reading = Reading(computed_at=NOON, samples=80, misses=40, nears=40, x_p95=2.0)
    state = replace(IN_FORCE, decided_at=NOON - timedelta(seconds=1), capacity=40.0)
    plain = decide(state, reading, PolicySettings(), BOUNDS, NOON)
    held = decide(state, reading, PolicySettings(), BOUNDS, NOON, deadline_places=100)
    assert held.limit >= plain.limit
    assert held.limit <= 10
