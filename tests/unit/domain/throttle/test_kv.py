"""What requests hold in KV memory, and how many batch requests it bears beside people."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.domain.throttle.decide import decide, limit_now
from app.domain.throttle.explain import explain
from app.domain.throttle.kv import Kv, held_tokens, mean_held, next_kv
from app.domain.throttle.readings import Gauges, Reading
from app.domain.throttle.values import Bounds, PolicySettings, Reason, State

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
BOUNDS = Bounds(total=128, reserve=8, pool="main")
POLICY = PolicySettings()
KNOWN = Kv(capacity_tokens=100_000, per_person_tokens=400, per_batch_tokens=1_000)


def a_reading(**figures: object) -> Reading:
    gauges = Gauges(kv_capacity_tokens=100_000, kv_usage=0.8, age_s=0.5)
    made = Reading(computed_at=NOON, batch_kv_tokens=1_000.0, people_kv_tokens=400.0, gauges=gauges)
    return replace(made, **figures)  # type: ignore[arg-type]


def test_a_request_holds_its_prompt_and_on_average_half_of_what_it_gives() -> None:
    assert held_tokens(300, 100) == 350
    assert held_tokens(None, 100) == 50


def test_a_call_that_gives_no_tokens_holds_nothing() -> None:
    assert held_tokens(8_000, 0) == held_tokens(8_000, None) == 0
    assert mean_held([(3.0, 8_000, 0), (1.0, 100, 200)]) == 50


def test_who_stays_longer_is_met_more_often() -> None:
    assert mean_held([(1.0, 100, 0), (1.0, 100, 20), (8.0, 900, 200)]) == 811
    assert mean_held([]) is None
    assert mean_held([(0.0, 100, 20)]) is None


def test_memory_bears_what_is_left_beside_the_people() -> None:
    assert KNOWN.limit(0, 0) == 82  # 92,000 − 10,000 kept free
    assert KNOWN.limit(50, 50) == 62  # 50 people hold 20,000
    assert KNOWN.limit(50, 100) == 52  # 50 more may come, and need more than the tenth
    assert KNOWN.limit(1_000, 1_000) == 0


@pytest.mark.parametrize(
    "kv",
    [Kv(), replace(KNOWN, capacity_tokens=None), replace(KNOWN, per_batch_tokens=None)],
)
def test_what_is_unknown_bounds_nothing(kv: Kv) -> None:
    assert kv.limit(50, 50) == math.inf


def test_batch_that_holds_nothing_is_not_bounded_by_memory() -> None:
    kv: Kv | None = KNOWN
    for _ in range(5_000):
        kv = next_kv(kv, a_reading(batch_kv_tokens=0.0), 5.0)

    assert kv is not None
    assert kv.limit(0, 0) == math.inf


def test_people_of_unknown_size_count_as_batch_requests() -> None:
    assert replace(KNOWN, per_person_tokens=None).limit(50, 50) == 32


def test_sizes_are_followed_and_kept_while_nothing_ends() -> None:
    first = next_kv(None, a_reading(), 5.0)
    larger = next_kv(first, a_reading(batch_kv_tokens=2_000.0), 5.0)
    silent = next_kv(larger, a_reading(batch_kv_tokens=None, people_kv_tokens=None), 5.0)

    assert first == KNOWN
    assert larger == replace(KNOWN, per_batch_tokens=1_200.0)
    assert silent == larger


@pytest.mark.parametrize(
    "gauges", [None, Gauges(), Gauges(kv_capacity_tokens=100_000, kv_usage=0.5, age_s=6.0)]
)
def test_old_or_missing_gauges_mean_that_the_memory_is_unknown(gauges: Gauges | None) -> None:
    kv = next_kv(KNOWN, a_reading(gauges=gauges), 5.0)

    assert kv == replace(KNOWN, capacity_tokens=None)
    assert next_kv(kv, a_reading(), 5.0) == KNOWN


def test_a_reading_of_before_there_were_sizes_leaves_nothing() -> None:
    assert next_kv(None, a_reading(batch_kv_tokens=None, people_kv_tokens=None), 5.0) is None


def filled(usage: float, readings: int = 1) -> float:
    """`fill` after readings of 50 batch requests, who should hold half of the memory."""
    gauges = Gauges(kv_capacity_tokens=100_000, kv_usage=usage)
    kv: Kv | None = KNOWN
    for _ in range(readings):
        kv = next_kv(kv, a_reading(batch_in_flight=50, gauges=gauges), 5.0)
    assert kv is not None
    return kv.fill


def test_what_the_endpoint_says_is_in_use_corrects_the_sizes() -> None:
    assert filled(0.5) == 1
    assert filled(0.75) == pytest.approx(1.05)
    assert filled(0.1, readings=300) == pytest.approx(0.2, abs=0.01)
    assert KNOWN.limit(0, 0) * 2 == replace(KNOWN, fill=0.5).limit(0, 0)


def test_a_memory_that_is_full_does_not_make_requests_look_small() -> None:
    gauges = Gauges(kv_capacity_tokens=100_000, kv_usage=0.95)
    kv = next_kv(KNOWN, a_reading(batch_in_flight=200, gauges=gauges), 5.0)

    assert kv is not None
    assert kv.fill == 1


def bound() -> State:
    return State(
        limit=82,
        reason=Reason.GROWING,
        decided_at=NOON - timedelta(seconds=1),
        valid_until=NOON + timedelta(seconds=4),
        capacity=110.0,
        slow_start=False,
        kv=KNOWN,
    )


def test_the_decision_says_that_memory_is_what_bounds() -> None:
    gauges = Gauges(kv_capacity_tokens=100_000, kv_usage=0.84)
    reading = a_reading(batch_in_flight=82, interactive_in_flight=5, gauges=gauges)
    decision = decide(bound(), reading, POLICY, BOUNDS, NOON)

    assert (decision.limit, decision.reason) == (80, Reason.MEMORY)
    assert limit_now(decision.state, 5, BOUNDS, NOON) == 80
    assert explain(decision, reading, POLICY, BOUNDS, NOON) == (
        "Pool 'main' lets 80 batch requests in flight (82 are in flight), because the endpoints' "
        "KV memory bears no more beside 5 people: 100,000 tokens, of which a batch request in "
        "flight takes 1,000 and a person 400."
    )


def test_a_capacity_that_memory_keeps_unused_is_not_raised() -> None:
    reading = a_reading(batch_in_flight=82, samples=40, x_p95=0.1)
    free = decide(bound(), reading, POLICY, BOUNDS, NOON)
    held = decide(replace(bound(), reason=Reason.MEMORY), reading, POLICY, BOUNDS, NOON)

    assert (free.state.capacity or 0) > 110
    assert (held.state.capacity, held.reason) == (110, Reason.MEMORY)


def test_a_capacity_is_raised_again_once_there_is_memory() -> None:
    reading = a_reading(batch_in_flight=82, samples=40, x_p95=0.1, batch_kv_tokens=100.0)
    state = replace(bound(), reason=Reason.MEMORY)
    first = decide(
        replace(state, kv=replace(KNOWN, per_batch_tokens=100)), reading, POLICY, BOUNDS, NOON
    )
    then = decide(first.state, replace(reading, batch_in_flight=110), POLICY, BOUNDS, NOON)

    assert (first.reason, then.reason) == (Reason.HOLDING, Reason.GROWING)


def test_laws_that_are_here_for_comparison_do_not_ask_for_memory() -> None:
    policy = PolicySettings(name="static", options={"cap": 100})
    decision = decide(bound(), a_reading(), policy, BOUNDS, NOON)

    assert (decision.limit, decision.state.kv) == (100, None)


def test_a_state_without_memory_reads_as_before() -> None:
    plain = bound().to_json()
    assert State.from_json(plain) == bound()
    assert plain.pop("kv")["capacity_tokens"] == 100_000
    assert State.from_json(plain).kv is None
