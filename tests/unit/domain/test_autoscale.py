"""When one endpoint more or fewer is wanted, and that it never goes to and fro."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.autoscale import (
    Load,
    Reason,
    Rules,
    Scale,
    State,
    is_scaled,
    scale,
    scaled_name,
)
from app.domain.throttle.samples import nearest_rank
from app.simulation.workloads import workload

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
RULES = Rules(minimum=1, maximum=4, hold_s=10, out_cooldown_s=15, in_cooldown_s=60)
CALM = Load(
    endpoints=2, backlog=0, oldest_wait_s=0, in_flight=8, places=16, places_each=8, pressure=0.5
)
QUEUE = replace(CALM, backlog=1000)
EMPTY = replace(CALM, in_flight=0)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def ticks(state: State, load: Load, seconds: int, rules: Rules = RULES) -> list[Scale]:
    """The rule every five seconds under a load that stays as it is."""
    made: list[Scale] = []
    for second in range(0, seconds, 5):
        made.append(scale(state, load, rules, after(second)))
        state = made[-1].state
    return made


def test_a_queue_has_to_last_before_one_more_is_wanted():
    made = ticks(State(1), QUEUE, 15)

    assert [(one.wanted, one.reason) for one in made] == [
        (1, Reason.HOLDING),
        (1, Reason.HOLDING),
        (2, Reason.BACKLOG),
    ]


def test_a_queue_that_lasts_leads_to_the_maximum_a_cooldown_apart():
    wanted = [one.wanted for one in ticks(State(1), QUEUE, 120)]
    steps = [n * 5 for n, (a, b) in enumerate(pairwise(wanted), 1) if a != b]

    assert (wanted[-1], steps) == (4, [10, 25, 40])


def test_a_moment_of_calm_starts_the_waiting_anew():
    first = scale(State(1), QUEUE, RULES, after(0))
    calm = scale(first.state, CALM, RULES, after(9))

    assert scale(calm.state, QUEUE, RULES, after(11)).reason is Reason.HOLDING


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        (replace(CALM, backlog=128), Reason.STEADY),
        (replace(CALM, backlog=129), Reason.BACKLOG),
        (replace(CALM, oldest_wait_s=31), Reason.OLDEST_WAIT),
        (replace(CALM, pressure=1.1), Reason.STEADY),
        (replace(CALM, pressure=1.1, in_flight=16), Reason.PEOPLE),
        (replace(CALM, endpoints=0, places=0, in_flight=0, backlog=1), Reason.BACKLOG),
    ],
)
def test_what_counts_as_too_much(load: Load, reason: Reason):
    assert ticks(State(1), load, 15)[-1].reason is reason


def test_while_one_starts_no_other_is_asked_for_but_not_for_ever():
    asked = State(2, out_at=NOON)
    starting = replace(QUEUE, missing=1)
    made = ticks(asked, starting, 320)

    assert {one.wanted for one in made[: 300 // 5]} == {2}
    assert made[10].reason is Reason.STARTING
    assert made[-1].wanted == 3


def test_idle_goes_in_one_at_a_time_down_to_the_minimum():
    wanted = [one.wanted for one in ticks(State(3), EMPTY, 300)]

    steps = [n * 5 for n, (a, b) in enumerate(pairwise(wanted), 1) if a != b]

    assert (wanted[-1], steps) == (1, [60, 125])  # seen idle anew at 65


def test_never_in_right_after_out():
    out = ticks(State(1), QUEUE, 15)[-1].state
    idle = [scale(out, EMPTY, RULES, after(15))]
    for second in range(20, 120, 5):
        idle.append(scale(idle[-1].state, EMPTY, RULES, after(second)))
    first_in = next(n for n, one in enumerate(idle) if one.wanted == 1)

    assert 15 + 5 * first_in >= 10 + RULES.in_cooldown_s


def test_nothing_leaves_where_those_that_stay_would_be_full():
    tight = replace(CALM, endpoints=2, in_flight=14, places=48, places_each=32)

    assert tight.utilisation < RULES.idle_share
    assert ticks(State(2), tight, 300)[-1].wanted == 2


def test_a_wait_past_its_bound_keeps_every_endpoint_even_where_places_are_free():
    assert ticks(State(4), replace(EMPTY, oldest_wait_s=31), 300)[-1].wanted == 4


def test_late_people_keep_every_endpoint():
    assert ticks(State(3), replace(EMPTY, pressure=1.2), 300)[-1].wanted == 3


def test_new_bounds_are_kept_at_once():
    assert scale(State(9), CALM, RULES, NOON).wanted == 4
    assert scale(State(0), CALM, RULES, NOON).reason is Reason.BOUNDS


def test_state_survives_json():
    state = State(3, high_since=NOON, out_at=after(5))

    assert State.from_json(state.to_json()) == state


def test_what_was_started_for_a_pool_is_known_by_its_name():
    assert is_scaled(scaled_name("main", "20001"), "main")
    assert not is_scaled("main-gpu", "main")
    assert not is_scaled(scaled_name("main2", "20001"), "main")


loads = st.builds(
    Load,
    endpoints=st.integers(0, 8),
    backlog=st.integers(0, 2000),
    oldest_wait_s=st.floats(0, 100),
    in_flight=st.integers(0, 64),
    places=st.integers(0, 64),
    places_each=st.integers(1, 16),
    pressure=st.none() | st.floats(0, 5),
    missing=st.integers(0, 2),
)
rules = st.builds(
    lambda low, more, idle, hold, out, inward: Rules(
        low, low + more, idle_share=idle, hold_s=hold, out_cooldown_s=out, in_cooldown_s=inward
    ),
    st.integers(0, 4),
    st.integers(0, 4),
    st.floats(0.05, 0.95),
    st.floats(0, 20),
    st.floats(0, 30),
    st.floats(1, 90),
)


@given(st.lists(loads, min_size=1, max_size=40), rules, st.integers(0, 12))
def test_bounds_are_kept_steps_are_of_one_and_in_never_follows_out_at_once(
    seen: list[Load], rule: Rules, start: int
):
    state, moved = State(start), {}
    for number, load in enumerate(seen):
        now = after(5 * number)
        one = scale(state, load, rule, now)
        assert rule.minimum <= one.wanted <= rule.maximum
        if one.reason is not Reason.BOUNDS:
            assert abs(one.wanted - state.wanted) <= 1
            if one.wanted < state.wanted:
                assert all(
                    now - at >= timedelta(seconds=rule.in_cooldown_s) for at in moved.values()
                )
            if one.wanted != state.wanted:
                moved["out" if one.wanted > state.wanted else "in"] = now
        state = one.state


@given(loads, rules, st.integers(0, 8))
def test_a_load_that_stays_moves_it_one_way_only(load: Load, rule: Rules, start: int):
    first = scale(State(start), load, rule, NOON)
    wanted = [one.wanted for one in ticks(first.state, load, 600, rule)]
    steps = {b - a for a, b in pairwise(wanted) if a != b}

    assert len(steps) <= 1


@given(loads, rules, st.integers(0, 8), st.integers(0, 500), st.integers(0, 30), st.floats(0, 50))
def test_more_load_never_wants_fewer(
    load: Load, rule: Rules, start: int, backlog: int, flying: int, waiting: float
):
    more = replace(
        load,
        backlog=load.backlog + backlog,
        in_flight=load.in_flight + flying,
        oldest_wait_s=load.oldest_wait_s + waiting,
    )
    state = State(start)
    for second in range(0, 120, 5):
        less_wanted = scale(state, load, rule, after(second))
        assert scale(state, more, rule, after(second)).wanted >= less_wanted.wanted
        state = less_wanted.state


def diurnal_wanted(seed: int, rule: Rules, *, starts_in_s: float = 15.0) -> list[int]:
    """`wanted` every five seconds while people come by the diurnal workload, two of its days.

    One declared endpoint of 8 places, added ones of 8; requests queue for a place and then take
    0.1 s and 30 ms a token.
    """
    load = replace(workload("diurnal"), duration_s=1_260.0)
    people = load.people(seed)
    arrivals = deque(zip(people.arrive_s, people.outputs, strict=True))
    running: list[float] = []
    queue: deque[tuple[float, int]] = deque()
    firsts: deque[tuple[float, float]] = deque()
    coming: list[tuple[float, int]] = []
    state, serving, wanted, moment = State(rule.minimum), rule.minimum, [], 0.0
    while moment < load.duration_s:
        moment += 0.25
        while arrivals and arrivals[0][0] <= moment:
            queue.append(arrivals.popleft())
        while running and running[0] <= moment:
            heapq.heappop(running)
        serving = max((n for at, n in coming if at <= moment), default=serving)
        serving = min(serving, state.wanted)
        places = 8 * (1 + serving)
        while queue and len(running) < places:
            came, tokens = queue.popleft()
            heapq.heappush(running, moment + 0.1 + 0.03 * tokens)
            firsts.append((moment, (moment - came + 0.1) / 0.5))
        while firsts and firsts[0][0] < moment - 10:
            firsts.popleft()
        if moment % 5:
            continue
        seen = Load(
            endpoints=1 + serving,
            backlog=len(queue),
            oldest_wait_s=moment - queue[0][0] if queue else 0.0,
            in_flight=len(running),
            places=places,
            places_each=8,
            pressure=nearest_rank(sorted(x for _, x in firsts), 0.95),
            missing=state.wanted - serving,
        )
        one = scale(state, seen, rule, after(moment))
        if one.wanted > state.wanted:
            coming = [(moment + starts_in_s, one.wanted)]
        state = one.state
        wanted.append(one.wanted)
    return wanted


def turns(wanted: list[int]) -> int:
    """How often the direction changes."""
    steps = [b - a for a, b in pairwise(wanted) if a != b]
    return sum(a * b < 0 for a, b in pairwise(steps))


@pytest.mark.parametrize("seed", range(5))
def test_ten_minute_days_move_it_out_and_in_without_flapping(seed: int):
    wanted = diurnal_wanted(seed, RULES)
    ten_minutes = 600 // 5

    assert max(wanted) == 4
    assert min(wanted[wanted.index(4) :]) < 4
    assert turns(wanted) <= 3  # out, in, out, in: as the days go
    for begin in range(0, len(wanted) - ten_minutes, 12):
        assert turns(wanted[begin : begin + ten_minutes]) <= 2


def test_mutant_without_hysteresis_flaps_over_the_same_day():
    hasty = replace(
        RULES, hold_s=0, out_cooldown_s=0, in_cooldown_s=0, idle_share=0.95, full_share=10.0
    )

    assert turns(diurnal_wanted(0, hasty, starts_in_s=0)) > 4
