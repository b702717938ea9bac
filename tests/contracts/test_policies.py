"""What every policy of the throttle must keep. A new policy is covered once its file exists."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from app.domain.throttle.decide import decide, limit_now
from app.domain.throttle.kv import Kv
from app.domain.throttle.policies import registered
from app.domain.throttle.readings import Gauges, Reading
from app.domain.throttle.values import Bounds, Decision, PolicySettings, Reason, State
from app.errors import ConfigError

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
POLICIES = sorted(registered())
every_policy = pytest.mark.parametrize("name", POLICIES)

counts = st.integers(0, 2_000)
sizes = st.floats(0, 1e7)
maybe = st.one_of(st.none(), st.floats(0, 1e7))


@st.composite
def some_bounds(draw: st.DrawFn) -> Bounds:
    reserve = draw(st.integers(1, 50))
    least = draw(st.integers(1, 50))
    most = draw(st.integers(least, 3_000))
    return Bounds(reserve + least + draw(st.integers(0, 1_000)), reserve, least, most)


@st.composite
def some_reading(draw: st.DrawFn) -> Reading:
    samples = draw(counts)
    nears = draw(st.integers(0, samples))
    flying = draw(counts)
    gauges = st.builds(
        Gauges,
        engine_waiting=st.one_of(st.none(), counts),
        engine_running=st.one_of(st.none(), counts),
        kv_usage=st.one_of(st.none(), st.floats(0, 1)),
        preemptions_rising=st.booleans(),
        kv_capacity_tokens=st.one_of(st.none(), st.integers(0, 500_000)),
        age_s=st.floats(0, 100),
    )
    return Reading(
        computed_at=NOON - timedelta(seconds=draw(st.floats(0, 4))),
        arrivals_per_s=draw(sizes),
        refused=draw(st.integers(0, 3)),
        p95_ms=draw(maybe),
        samples=samples,
        nears=nears,
        misses=draw(st.integers(0, nears)),
        x_p95=draw(maybe),
        waiting_over_target=draw(st.integers(0, 3)),
        oldest_waiting_s=draw(st.floats(0, 1e4)),
        interactive_in_flight=flying,
        interactive_recent_peak=flying + draw(counts),
        batch_in_flight=draw(counts),
        batch_per_s=draw(maybe),
        batch_round_trip_ms=draw(maybe),
        batch_samples=draw(counts),
        batch_x_p95=draw(maybe),
        people_kv_tokens=draw(st.one_of(st.none(), st.floats(0, 1e5))),
        batch_kv_tokens=draw(st.one_of(st.none(), st.floats(0, 1e5))),
        gauges=draw(st.one_of(st.none(), gauges)),
    )


some_kv = st.builds(
    Kv,
    capacity_tokens=st.one_of(st.none(), st.floats(1, 1e6)),
    per_person_tokens=st.one_of(st.none(), st.floats(0, 1e5)),
    per_batch_tokens=st.one_of(st.none(), st.floats(0, 1e5)),
    fill=st.floats(0.1, 4.0),
)


@st.composite
def some_state(draw: st.DrawFn) -> State:
    decided = draw(st.one_of(st.none(), st.floats(0, 20)))
    at = None if decided is None else NOON - timedelta(seconds=decided)
    return State(
        limit=draw(st.integers(1, 3_000)),
        reason=draw(st.sampled_from(Reason)),
        decided_at=at,
        valid_until=None if at is None else at + timedelta(seconds=5),
        capacity=draw(st.one_of(st.none(), st.floats(0, 1e6))),
        interactive_peak=draw(st.floats(0, 1e4)),
        interactive_level=draw(st.floats(0, 1e4)),
        kv=draw(st.one_of(st.none(), some_kv)),
        smoothed=draw(st.one_of(st.none(), st.floats(0, 1))),
        cut_at=draw(st.one_of(st.none(), st.just(at))),
        green_ticks=draw(st.integers(0, 100)),
        slow_start=draw(st.booleans()),
        quiet_limit=draw(st.one_of(st.none(), st.floats(0, 1e6))),
        memory=draw(
            st.dictionaries(
                st.sampled_from(["limit", "long_ms", "least_ms", "quiet_s", "quiet_base"]),
                st.floats(0.1, 1e5),
            )
        ),
    )


def lawful(limit: int, bounds: Bounds) -> bool:
    within = 1 <= bounds.batch_min <= limit <= min(bounds.batch_max, bounds.total - bounds.reserve)
    return within and bounds.total - limit >= bounds.reserve >= 1


def a_reading(at: datetime, **figures: object) -> Reading:
    return replace(Reading(computed_at=at), **figures)  # type: ignore[arg-type]


@every_policy
@given(state=some_state(), reading=some_reading(), bounds=some_bounds(), people=counts)
@settings(max_examples=25, deadline=None)
def test_the_limit_is_within_the_bounds_whatever_is_read(
    name: str, state: State, reading: Reading, bounds: Bounds, people: int
) -> None:
    decision = decide(state, reading, PolicySettings(name=name), bounds, NOON)

    assert decision.reason is not Reason.STALE
    assert lawful(decision.limit, bounds)
    assert lawful(limit_now(decision.state, people, bounds, NOON), bounds)
    assert lawful(limit_now(state, people, bounds, NOON), bounds)
    assert decision.limit == decision.state.limit
    assert decision.pressure >= 0


@every_policy
@given(
    state=some_state(),
    reading=st.one_of(st.none(), some_reading()),
    bounds=some_bounds(),
    override=st.one_of(st.none(), st.integers(-5, 5_000)),
    places=st.one_of(st.none(), st.integers(0, 5_000)),
)
@settings(max_examples=25, deadline=None)
def test_a_replay_from_the_stored_row_decides_the_same(
    name: str,
    state: State,
    reading: Reading | None,
    bounds: Bounds,
    override: int | None,
    places: int | None,
) -> None:
    policy = PolicySettings(name=name)

    def stored(value: object) -> object:
        return json.loads(json.dumps(value.to_json(), allow_nan=False))  # type: ignore[attr-defined]

    first = decide(state, reading, policy, bounds, NOON, override=override, deadline_places=places)
    again = decide(
        State.from_json(stored(state)),  # type: ignore[arg-type]
        None if reading is None else Reading.from_json(stored(reading)),  # type: ignore[arg-type]
        PolicySettings.from_json(stored(policy)),  # type: ignore[arg-type]
        Bounds.from_json(stored(bounds)),  # type: ignore[arg-type]
        datetime.fromisoformat(NOON.isoformat()),
        override=override,
        deadline_places=places,
    )

    assert again == first
    assert Decision.from_json(stored(first)) == first  # type: ignore[arg-type]


@every_policy
@given(
    state=some_state(),
    bounds=some_bounds(),
    broken=st.sampled_from(
        [
            {"p95_ms": math.nan},
            {"x_p95": math.inf},
            {"samples": -1},
            {"samples": 3, "nears": 5},
            {"nears": 1, "samples": 5, "misses": 2},
            {"arrivals_per_s": -0.5},
            {"oldest_waiting_s": math.nan},
            {"batch_in_flight": -2},
            {"gauges": Gauges(kv_usage=math.nan)},
            {"computed_at": NOON - timedelta(seconds=6)},
            {"computed_at": NOON + timedelta(hours=1)},
        ]
    ),
)
@settings(max_examples=25, deadline=None)
def test_broken_numbers_and_old_readings_mean_the_floor(
    name: str, state: State, bounds: Bounds, broken: dict[str, object]
) -> None:
    state = replace(state, override=None)
    decision = decide(state, a_reading(NOON, **broken), PolicySettings(name=name), bounds, NOON)

    assert (decision.limit, decision.reason) == (bounds.floor, Reason.STALE)
    assert limit_now(decision.state, 0, bounds, NOON) == bounds.floor


@every_policy
@given(state=some_state(), reading=some_reading(), bounds=some_bounds())
@settings(max_examples=20, deadline=None)
def test_no_reading_or_a_clock_that_jumped_means_the_floor(
    name: str, state: State, reading: Reading, bounds: Bounds
) -> None:
    policy = PolicySettings(name=name)
    back = replace(state, decided_at=NOON + timedelta(seconds=3))
    ahead = replace(state, decided_at=NOON - timedelta(hours=1))

    for decision in (
        decide(state, None, policy, bounds, NOON),
        decide(back, reading, policy, bounds, NOON),
        decide(ahead, reading, policy, bounds, NOON),
    ):
        assert (decision.limit, decision.reason) == (bounds.floor, Reason.STALE)


@every_policy
@given(state=some_state(), reading=some_reading(), bounds=some_bounds(), late=st.floats(0.1, 1e6))
@settings(max_examples=20, deadline=None)
def test_a_silent_controller_means_the_floor(
    name: str, state: State, reading: Reading, bounds: Bounds, late: float
) -> None:
    decision = decide(
        state, reading, PolicySettings(name=name), bounds, NOON, override=bounds.total
    )
    assert decision.state.valid_until is not None
    over = decision.state.valid_until + timedelta(seconds=late)

    assert limit_now(decision.state, 0, bounds, over) == bounds.floor
    assert limit_now(decision.state, 0, bounds, NOON - timedelta(seconds=2)) == bounds.floor


@every_policy
@given(reading=some_reading(), bounds=some_bounds(), warm=st.integers(0, 40))
@settings(max_examples=25, deadline=None)
def test_a_limit_that_nobody_reaches_is_not_raised(
    name: str, reading: Reading, bounds: Bounds, warm: int
) -> None:
    """Batch stands at nothing: whatever the policy knows by then, nothing is raised."""
    assume(reading.gauges is None)
    policy, state, now = PolicySettings(name=name), State(), NOON
    reading = replace(reading, interactive_recent_peak=reading.interactive_in_flight)
    limits = []
    for turn in range(warm + 60):
        now += timedelta(seconds=1)
        used = state.limit if turn < warm else 0
        seen = replace(reading, computed_at=now, batch_in_flight=used)
        state = decide(state, seen, policy, bounds, now).state
        limits.append(state.limit)

    # The smoothing of the pressure rule may still be on its way; it forgets 30 % a tick.
    settled = limits[warm + 30 :]
    assert max(settled) <= max([*limits[: warm + 30], bounds.floor])
    assert max(settled) - min(settled) <= 0 or settled[0] > settled[-1]


@every_policy
@pytest.mark.parametrize("people", [(5, 40), (40, 5)])
def test_after_a_step_the_limit_settles_and_does_not_swing(
    name: str, people: tuple[int, int]
) -> None:
    """A pool that bears 100 requests, told at once: x grows with what is in flight."""
    bounds, policy, state, now = Bounds(128, 8), PolicySettings(name=name), State(), NOON
    limits: list[int] = []
    for turn in range(600):
        now += timedelta(seconds=1)
        there = people[0] if turn < 300 else people[1]
        x = (limit_now(state, there, bounds, now) + there) / 100
        seen = Reading(
            computed_at=now,
            arrivals_per_s=there / 5,
            p95_ms=250 + 250 * x,
            samples=200,
            nears=200 if x > 0.8 else 0,
            misses=200 if x > 1.0 else 0,
            x_p95=x,
            interactive_in_flight=there,
            interactive_recent_peak=there,
            batch_in_flight=limit_now(state, there, bounds, now),
            batch_round_trip_ms=2_000 + 2_000 * x,
        )
        state = decide(state, seen, policy, bounds, now).state
        limits.append(state.limit)

    for settled in (limits[200:300], limits[500:600]):
        middle = sum(settled) / len(settled)
        assert max(settled) - min(settled) <= max(3.0, 0.15 * middle)


@every_policy
@given(
    state=some_state(), reading=some_reading(), bounds=some_bounds(), word=st.integers(-9, 9_999)
)
@settings(max_examples=20, deadline=None)
def test_an_operators_word_comes_first_within_the_bounds(
    name: str, state: State, reading: Reading, bounds: Bounds, word: int
) -> None:
    policy = PolicySettings(name=name)
    for seen in (reading, None):
        decision = decide(state, seen, policy, bounds, NOON, override=word)

        assert decision.reason is Reason.OVERRIDE
        assert decision.limit == bounds.clamp(word)
        assert limit_now(decision.state, 500, bounds, NOON) == bounds.clamp(word)


@every_policy
@given(state=some_state(), reading=some_reading(), bounds=some_bounds(), places=counts)
@settings(max_examples=20, deadline=None)
def test_deadlines_hold_at_most_a_quarter_of_the_capacity(
    name: str, state: State, reading: Reading, bounds: Bounds, places: int
) -> None:
    policy = PolicySettings(name=name)
    without = decide(state, reading, policy, bounds, NOON)
    decision = decide(state, reading, policy, bounds, NOON, deadline_places=places)

    assert lawful(decision.limit, bounds)
    assert decision.limit >= without.limit
    if decision.limit > without.limit:
        capacity = decision.state.capacity
        assert decision.reason is Reason.DEADLINE_FLOOR
        assert decision.limit <= max(bounds.floor, (capacity or without.limit) / 4)


@every_policy
@given(
    state=some_state(),
    reading=some_reading(),
    bounds=some_bounds(),
    kv=some_kv,
    less=st.floats(0, 1),
    more=st.floats(1, 100),
)
@settings(max_examples=40, deadline=None)
def test_more_people_or_less_memory_never_mean_more_batch(
    name: str,
    state: State,
    reading: Reading,
    bounds: Bounds,
    kv: Kv,
    less: float,
    more: float,
) -> None:
    decided = decide(state, reading, PolicySettings(name=name), bounds, NOON).state

    def limits(kv: Kv | None) -> list[int]:
        kept = replace(decided, kv=kv)
        return [limit_now(kept, people, bounds, NOON) for people in (0, 1, 5, 50, 500)]

    unbound, bound = limits(None), limits(kv)
    assert unbound == sorted(unbound, reverse=True)
    assert bound == sorted(bound, reverse=True)
    assert all(one <= other for one, other in zip(bound, unbound, strict=True))
    if kv.capacity_tokens is not None:
        small = limits(replace(kv, capacity_tokens=kv.capacity_tokens * less))
        assert all(one <= other for one, other in zip(small, bound, strict=True))
    if kv.capacity_tokens is not None and kv.per_batch_tokens is not None:
        large = replace(kv, per_batch_tokens=max(1.0, kv.per_batch_tokens) * more)
        assert all(one <= other for one, other in zip(limits(large), bound, strict=True))


@every_policy
@given(state=some_state(), reading=some_reading(), bounds=some_bounds())
@settings(max_examples=25, deadline=None)
def test_less_memory_never_means_a_higher_decision(
    name: str, state: State, reading: Reading, bounds: Bounds
) -> None:
    policy = PolicySettings(name=name)
    gauges = replace(reading.gauges or Gauges(), kv_usage=None, age_s=0.0)
    limits = [
        decide(
            state,
            replace(reading, gauges=replace(gauges, kv_capacity_tokens=tokens)),
            policy,
            bounds,
            NOON,
        ).limit
        for tokens in (0, 500, 20_000, 1_000_000, None)
    ]

    # 0 is no size.
    assert limits[0] == limits[-1]
    assert limits[1:] == sorted(limits[1:])


@pytest.mark.parametrize(
    "wrong",
    [
        {"total": 4, "reserve": 4},
        {"total": 10, "reserve": 0},
        {"total": 10, "batch_min": 0},
        {"total": 10, "batch_min": 5, "batch_max": 4},
        {"total": 10, "reserve": 6, "batch_min": 5},
    ],
)
def test_bounds_without_a_lawful_limit_are_refused_by_name(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=r"pool 'chat': total (4|10), reserve"):
        Bounds(pool="chat", **wrong)  # type: ignore[arg-type]


def test_the_comparison_is_complete() -> None:
    known = {"pressure", "budget", "static", "aimd", "gradient", "vegas", "unlimited", "oracle"}

    assert known <= set(POLICIES)
