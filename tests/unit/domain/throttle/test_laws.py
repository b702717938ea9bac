"""The other laws and the guard, as arithmetic."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.domain.throttle.decide import decide, distrust, limit_now
from app.domain.throttle.policies import named
from app.domain.throttle.quiet import next_quiet
from app.domain.throttle.readings import Gauges, Reading
from app.domain.throttle.values import Bounds, Decision, PolicySettings, Reason, State
from app.errors import ConfigError, UnknownName

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
BOUNDS = Bounds(total=110, reserve=10, batch_min=1)


def a_reading(at: datetime = NOON, **values: object) -> Reading:
    return replace(Reading(computed_at=at), **values)  # type: ignore[arg-type]


def after(name: str, *readings: Reading, **options: float) -> list[Decision]:
    """Decisions on `readings`, a second apart, batch using the whole limit where not said."""
    policy, state, decisions = PolicySettings(name=name, options=options), State(), []
    for turn, reading in enumerate(readings):
        now = NOON + timedelta(seconds=turn)
        used = reading.batch_in_flight or state.limit
        seen = replace(reading, computed_at=now, batch_in_flight=used)
        decisions.append(decide(state, seen, policy, BOUNDS, now))
        state = decisions[-1].state
    return decisions


def test_the_pressure_rule_takes_the_larger_of_rate_and_latency() -> None:
    [by_rate] = after("pressure", a_reading(arrivals_per_s=10, p95_ms=100))
    [by_latency] = after("pressure", a_reading(arrivals_per_s=2, p95_ms=400))

    assert (by_rate.limit, by_rate.pressure) == (51, 0.5)  # 100 − 99 · 0.5 = 50.5, halves up
    assert (by_latency.limit, by_latency.pressure) == (21, 0.8)


def test_the_pressure_rule_smooths_by_three_tenths() -> None:
    calm, sudden = after("pressure", a_reading(), a_reading(p95_ms=5_000))

    assert calm.limit == 100
    assert sudden.state.smoothed == pytest.approx(0.3)
    assert sudden.limit == 70


def test_a_fixed_cap_is_fixed_within_the_bounds() -> None:
    assert [d.limit for d in after("static", a_reading(), a_reading(p95_ms=9e9), cap=12)] == [
        12
    ] * 2
    assert after("static", a_reading(), cap=900)[0].limit == 100


def test_aimd_sees_refusals_only() -> None:
    grown = after("aimd", *[a_reading(p95_ms=9e9)] * 9)
    cut = after("aimd", *[a_reading()] * 9, a_reading(refused=2))

    assert grown[-1].limit == 10
    assert cut[-1].limit == 5


def test_vegas_stops_when_its_own_queue_grows() -> None:
    grown = after("vegas", *[a_reading(batch_round_trip_ms=100)] * 10)
    slow = after(
        "vegas", *[a_reading(batch_round_trip_ms=100)] * 10, a_reading(batch_round_trip_ms=900)
    )

    assert grown[-1].limit > grown[0].limit
    assert slow[-1].limit < slow[-2].limit


def test_gradient_shrinks_when_calls_get_slower_than_they_were() -> None:
    steady = after("gradient", *[a_reading(batch_round_trip_ms=100)] * 20)
    slow = after(
        "gradient",
        *[a_reading(batch_round_trip_ms=100)] * 20,
        *[a_reading(batch_round_trip_ms=1_000)] * 10,
    )

    assert steady[-1].limit > steady[0].limit
    assert slow[-1].limit < steady[-1].limit
    assert slow[-1].reason is Reason.OVERLOAD


def test_the_oracle_knows_nothing_in_production() -> None:
    assert after("oracle", a_reading())[0].limit == 1
    assert after("oracle", a_reading(), limit=40)[0].limit == 40


def test_an_unknown_policy_is_told_with_those_there_are() -> None:
    with pytest.raises(UnknownName, match=r"no policy 'budgte'; known: aimd, budget, "):
        named("budgte")


@pytest.mark.parametrize(
    ("reading", "state", "words"),
    [
        (None, State(), "no reading"),
        (a_reading(p95_ms=math.nan), State(), "impossible"),
        (a_reading(NOON - timedelta(seconds=9)), State(), "9 s old"),
        (a_reading(NOON + timedelta(seconds=9)), State(), "future"),
        (a_reading(), State(decided_at=NOON + timedelta(seconds=2)), "went back by 2 s"),
        (a_reading(), State(decided_at=NOON - timedelta(hours=1)), "3600 s since"),
    ],
)
def test_doubt_is_told_in_words(reading: Reading | None, state: State, words: str) -> None:
    assert words in (distrust(state, reading, PolicySettings(), NOON) or "")


def test_a_fresh_reading_is_trusted() -> None:
    assert distrust(State(), a_reading(), PolicySettings(), NOON) is None


def test_a_deadline_holds_a_quarter_of_the_capacity_at_most() -> None:
    state = State(capacity=80.0, decided_at=NOON - timedelta(seconds=1), interactive_peak=70.0)
    crowd = a_reading(interactive_in_flight=70, batch_in_flight=1, samples=40, x_p95=0.9)

    first = PolicySettings(deadline_before_people=True)
    held = decide(state, crowd, first, BOUNDS, NOON, deadline_places=50)
    few = decide(state, crowd, first, BOUNDS, NOON, deadline_places=7)

    assert (held.limit, held.reason) == (19, Reason.DEADLINE_FLOOR)
    assert few.limit == 7
    assert limit_now(held.state, 70, BOUNDS, NOON) == 19


def test_a_quiet_pool_grows_to_the_knee_and_stops() -> None:
    """Throughput that saturates at 90 places: trials beyond it are not worth it."""
    state = State(limit=40)
    for _ in range(600):
        limit = state.quiet_limit or 40.0
        state = replace(state, limit=int(limit))
        rate = 100.0 * min(limit, 90.0)
        seen = a_reading(batch_in_flight=int(limit), batch_per_s=rate)
        state = next_quiet(state, seen, 40.0, 1.0, sound=True)

    assert state.quiet_limit is not None
    assert 78 <= state.quiet_limit <= 98


def test_the_first_person_ends_the_quiet() -> None:
    state = State(quiet_limit=90.0, memory={"quiet_s": 100.0, "limit": 3.0})
    ended = next_quiet(state, a_reading(interactive_in_flight=1), 40.0, 1.0, sound=True)

    assert ended.quiet_limit is None
    assert ended.memory == {"limit": 3.0}


def test_extra_places_count_only_while_nobody_is_there() -> None:
    state = State(
        capacity=50.0,
        quiet_limit=90.0,
        reason=Reason.NO_TRAFFIC,
        decided_at=NOON,
        valid_until=NOON + timedelta(seconds=5),
    )

    assert limit_now(state, 0, BOUNDS, NOON) == 90
    assert limit_now(state, 1, BOUNDS, NOON) == 48


def test_readings_survive_json_to_the_last_bit_even_broken_ones() -> None:
    reading = a_reading(p95_ms=0.1 + 0.2, x_p95=1 / 3, gauges=Gauges(kv_usage=2 / 3))
    broken = a_reading(p95_ms=math.nan, x_p95=-math.inf)

    def through(value: Reading) -> Reading:
        return Reading.from_json(json.loads(json.dumps(value.to_json(), allow_nan=False)))

    assert through(reading) == reading
    again = through(broken)
    assert again.p95_ms is not None
    assert math.isnan(again.p95_ms)
    assert again.x_p95 == -math.inf


def test_rows_older_than_a_field_still_read() -> None:
    plain = State(limit=7).to_json()
    del plain["quiet_limit"]

    assert State.from_json({**plain, "from_a_newer_program": 1}) == State(limit=7)


@pytest.mark.parametrize(
    "wrong", [{"target_p95_ms": 0}, {"per_token_target_ms": math.nan}, {"alpha": 0.0}]
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="policy 'budget'"):
        PolicySettings(**wrong)  # type: ignore[arg-type]
