"""The default law, as arithmetic."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.domain.throttle.decide import decide, limit_now
from app.domain.throttle.feedforward import blaming, next_weight, people_weight, surge
from app.domain.throttle.policies.budget import OPTIONS, Light, signal
from app.domain.throttle.readings import Gauges, Reading
from app.domain.throttle.values import Bounds, PolicySettings, Reason, State

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
BEFORE = NOON - timedelta(seconds=1)
BOUNDS = Bounds(total=256, reserve=8)
POLICY = PolicySettings(first_token_target_ms=500)


def a_state(**values: object) -> State:
    state = State(
        limit=60,
        reason=Reason.GROWING,
        decided_at=BEFORE,
        valid_until=BEFORE + timedelta(seconds=5),
        capacity=60.0,
        slow_start=False,
    )
    return replace(state, **values)  # type: ignore[arg-type]


def a_reading(**values: object) -> Reading:
    reading = Reading(computed_at=NOON, samples=80, x_p95=0.5, batch_in_flight=60)
    return replace(reading, **values)  # type: ignore[arg-type]


def test_on_target_and_used_the_capacity_grows_by_five_percent_a_second_at_most() -> None:
    decision = decide(a_state(), a_reading(), POLICY, BOUNDS, NOON)

    assert decision.reason is Reason.GROWING
    assert decision.state.capacity == pytest.approx(60 * 1.05)
    assert decision.limit == 63


def test_the_nearer_the_aim_the_slower_the_growth() -> None:
    decision = decide(a_state(), a_reading(x_p95=0.83), POLICY, BOUNDS, NOON)

    assert decision.state.capacity == pytest.approx(60 * (1 + 0.20 * (0.88 - 0.83)))


def test_few_samples_prove_little() -> None:
    decision = decide(a_state(), a_reading(samples=5), POLICY, BOUNDS, NOON)

    assert decision.state.capacity == pytest.approx(60 * (1 + 0.05 * 5 / 20))


def test_over_the_aim_but_on_target_it_leans_back() -> None:
    decision = decide(a_state(), a_reading(x_p95=0.98), POLICY, BOUNDS, NOON)

    assert decision.reason is Reason.NEAR_TARGET
    assert decision.state.capacity == pytest.approx(60 * (1 - 0.10 * 0.10))


def test_over_target_cuts_once_then_cools() -> None:
    late = a_reading(nears=20, misses=20, x_p95=1.3, interactive_in_flight=0)
    first = decide(a_state(), late, POLICY, BOUNDS, NOON)
    soon = NOON + timedelta(seconds=1)
    second = decide(first.state, replace(late, computed_at=soon), POLICY, BOUNDS, soon)

    assert (first.limit, first.reason) == (51, Reason.OVERLOAD)  # 60 · 0.85
    assert (second.limit, second.reason) == (51, Reason.COOLING)


def test_a_person_who_waits_past_the_target_cuts_deeper() -> None:
    waiting = a_reading(waiting_over_target=1, oldest_waiting_s=0.7)
    decision = decide(a_state(), waiting, POLICY, BOUNDS, NOON)

    assert decision.limit == 42  # 60 · 0.70
    assert decision.pressure == pytest.approx(1.4)


def test_batch_is_cut_only_by_its_share_of_the_blame() -> None:
    crowded = a_reading(
        misses=20, nears=20, batch_in_flight=10, interactive_in_flight=30, x_p95=1.2
    )
    decision = decide(a_state(interactive_peak=30.0), crowded, POLICY, BOUNDS, NOON)

    proven = 10 + people_weight(30) + 2
    assert decision.state.capacity == pytest.approx(proven * (1 - 0.15 * 0.5))


def test_an_unused_limit_is_not_raised() -> None:
    decision = decide(a_state(), a_reading(batch_in_flight=50), POLICY, BOUNDS, NOON)

    assert (decision.limit, decision.reason) == (60, Reason.LIMIT_UNUSED)


def test_people_take_their_places_at_the_very_next_claim() -> None:
    kept = decide(a_state(), a_reading(x_p95=0.88), POLICY, BOUNDS, NOON).state

    assert limit_now(kept, 0, BOUNDS, NOON) == 60
    assert limit_now(kept, 1, BOUNDS, NOON) == 58  # one place, and one for chance
    assert limit_now(replace(kept, interactive_level=16.0), 16, BOUNDS, NOON) == 40  # 16 + √16


def test_recovery_is_immediate_because_the_capacity_is_remembered() -> None:
    kept = replace(a_state(), decided_at=NOON, valid_until=NOON + timedelta(minutes=2))
    crowd = replace(kept, interactive_peak=50.0, interactive_level=50.0)
    minute = NOON + timedelta(seconds=60)

    assert limit_now(crowd, 50, BOUNDS, NOON) == 2
    assert limit_now(crowd, 0, BOUNDS, minute) == 59  # 50 · 0.70^60 is left of the peak


def test_a_surge_is_taken_to_go_on() -> None:
    assert surge(25, 4) == pytest.approx(2 * (25 - 4 - 3 * 5**0.5))
    assert surge(9, 4) == 0.0


def test_where_people_are_few_batch_calls_speak_for_them() -> None:
    few = a_reading(samples=1, x_p95=0.4, batch_samples=50, batch_x_p95=0.95)
    many = replace(few, samples=40)

    assert signal(few, POLICY, OPTIONS).light is Light.AMBER
    assert signal(many, POLICY, OPTIONS).light is Light.GREEN


@pytest.mark.parametrize(
    ("gauges", "light"),
    [
        (Gauges(kv_usage=0.79), Light.GREEN),
        (Gauges(kv_usage=0.85), Light.AMBER),
        (Gauges(kv_usage=0.91), Light.RED),
        (Gauges(preemptions_rising=True), Light.RED),
        (Gauges(kv_usage=0.99, preemptions_rising=True, age_s=60), Light.GREEN),
        (None, Light.GREEN),
    ],
)
def test_memory_of_the_engine_counts_while_it_is_fresh(gauges: Gauges | None, light: Light) -> None:
    assert signal(a_reading(gauges=gauges), POLICY, OPTIONS).light is light


def test_refusals_are_red() -> None:
    assert signal(a_reading(refused=1), POLICY, OPTIONS).light is Light.RED


def test_one_late_request_among_few_is_red_and_among_many_is_not() -> None:
    assert signal(a_reading(samples=1, nears=1, misses=1), POLICY, OPTIONS).light is Light.RED
    assert signal(a_reading(samples=80, nears=1, misses=1), POLICY, OPTIONS).light is Light.GREEN


def test_who_comes_into_a_full_house_is_not_late_because_of_batch() -> None:
    bounds = Bounds(total=256, reserve=8, batch_min=1)
    # 36 people weigh 36 + √36 = 42 places.
    assert blaming(POLICY, a_state(capacity=43.0), bounds).people_capacity == 36
    assert blaming(POLICY, State(), bounds).people_capacity is None
    measured = replace(POLICY, people_capacity=20)
    assert blaming(measured, a_state(capacity=43.0), bounds).people_capacity == 20


def test_a_new_pool_starts_at_the_floor_and_grows_by_fifteen_percent_and_one() -> None:
    state, now, limits = State(), NOON, []
    for _ in range(4):
        seen = Reading(computed_at=now, samples=50, x_p95=0.3, batch_in_flight=state.limit)
        state = decide(state, seen, POLICY, BOUNDS, now).state
        limits.append(state.limit)
        now += timedelta(seconds=1)

    assert limits == [2, 3, 4, 6]


def test_after_a_stop_the_capacity_is_tried_again_from_its_half() -> None:
    stopped = decide(a_state(), None, POLICY, BOUNDS, NOON)
    again = decide(stopped.state, None, POLICY, BOUNDS, NOON + timedelta(seconds=1))

    assert (stopped.limit, stopped.reason) == (1, Reason.STALE)
    assert stopped.state.capacity == again.state.capacity == 30.0
    assert stopped.state.slow_start


def test_memory_that_is_slow_to_drain_is_not_held_against_the_capacity_again() -> None:
    full = Gauges(kv_usage=0.92)
    first = decide(a_state(), a_reading(gauges=full), POLICY, BOUNDS, NOON)
    state, limits = first.state, []
    for second in range(1, 11):
        now = NOON + timedelta(seconds=second)
        seen = a_reading(computed_at=now, gauges=full, batch_in_flight=60)
        state = decide(state, seen, POLICY, BOUNDS, now).state
        limits.append(state.limit)

    assert first.limit == 51
    assert limits == [51] * 10


def test_a_capacity_under_the_people_who_are_well_is_put_right() -> None:
    """They were all ahead of each other, so none of them counts; that must not be for ever."""
    starved = a_state(limit=1, capacity=2.0, interactive_peak=16.0, interactive_level=16.0)
    well = a_reading(
        samples=0,
        x_p95=None,
        not_attributable=40,
        share_over_target=0.0,
        interactive_in_flight=16,
        batch_in_flight=1,
    )
    late = replace(well, share_over_target=0.5)

    learnt = decide(starved, well, POLICY, BOUNDS, NOON).state
    assert learnt.capacity is not None
    assert learnt.capacity >= 1 + 16 + 4
    assert blaming(POLICY, learnt, BOUNDS).people_capacity == 16
    kept = decide(starved, late, POLICY, BOUNDS, NOON).state
    assert kept.capacity is not None
    assert kept.capacity < 3


def test_a_person_weighs_what_the_load_of_both_says() -> None:
    chat_beside_chat = a_reading(people_tokens_per_place_s=60.0, batch_tokens_per_place_s=90.0)
    chat_beside_embedding = a_reading(
        people_tokens_per_place_s=100.0, batch_tokens_per_place_s=1500.0
    )
    assert next_weight(1.0, chat_beside_chat) == 1.0
    assert next_weight(1.0, a_reading()) == 1.0
    settled = 1.0
    for _ in range(60):
        settled = next_weight(settled, chat_beside_embedding)
    assert settled == pytest.approx(0.2, abs=1e-3)


def test_light_people_leave_more_places_to_batch() -> None:
    assert people_weight(7, 0.2) == pytest.approx(0.2 * (7 + 7**0.5))
    assert people_weight(0, 0.2) == 0
