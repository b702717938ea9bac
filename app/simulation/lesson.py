"""A first lesson on fixed places: two small classics that a person can check by hand.

1. Eight places. Twenty batch tasks of 200 ms are there from the start; then ten people come at
   once, 20 ms each. Without a throttle batch takes every free place; with it batch has one to six,
   and what the people take away (`limit_now`, as in production) is not given to new batch tasks.
2. Ten requests of random priority on a node of three places, 300 ms each, one in twenty failing and
   tried again. With five waiting, or one waiting for three seconds, a node of three is added.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from app.domain.throttle.decide import limit_now
from app.domain.throttle.samples import nearest_rank
from app.domain.throttle.values import Bounds, Reason, State
from app.simulation import signs
from app.simulation.setup import EPOCH
from app.simulation.signs import Sign

PLACES = 8
BATCH_TASKS, BATCH_MS = 20, 200.0
PEOPLE, PERSON_MS = 10, 20.0
PEOPLE_TARGET_MS = 120.0
LESSON_BOUNDS = Bounds(total=PLACES, reserve=2, batch_min=1, batch_max=6, pool="lesson")
NODE_PLACES, REQUEST_MS, FAILING = 3, 300.0, 0.05
ADD_AT_WAITING, ADD_AT_WAITED_MS, NODE_START_MS = 5, 3_000.0, 200.0


@dataclass(frozen=True, slots=True)
class Gate:
    """How the first classic went; times in ms."""

    throttled: bool
    people_at_ms: float
    people_p50_ms: float
    people_p95_ms: float
    batch_done_ms: float
    most_batch: int
    most_in_use: int
    signs: tuple[Sign, Sign, Sign]


@dataclass(frozen=True, slots=True)
class Served:
    """One request of the second classic."""

    number: int
    priority: int
    started_ms: float
    ended_ms: float
    attempts: int


@dataclass(frozen=True, slots=True)
class Growth:
    """How the second classic went."""

    served: tuple[Served, ...]
    node_added_ms: float | None
    why_added: str
    places: int
    most_in_use: int
    signs: tuple[Sign, Sign, Sign]


def gate(*, throttled: bool, people_at_ms: float = 500.0) -> Gate:
    """The first classic, with the throttle or without."""
    batch_left, people_left = BATCH_TASKS, 0
    ends: list[tuple[float, bool]] = []
    held = most_batch = most_in_use = 0
    waits: list[float] = []
    now = batch_done = longest_still = last_batch_end = 0.0
    came = False
    while True:
        if now >= people_at_ms and not came:
            came, people_left = True, PEOPLE
        while people_left and len(ends) < PLACES:
            people_left -= 1
            heapq.heappush(ends, (now + PERSON_MS, False))
            waits.append(now + PERSON_MS - people_at_ms)
        people_now = people_left + sum(not batch for _, batch in ends)
        limit = _limit(people_now, now) if throttled else PLACES
        while batch_left and held < limit and len(ends) < PLACES:
            batch_left -= 1
            held += 1
            heapq.heappush(ends, (now + BATCH_MS, True))
        most_batch, most_in_use = max(most_batch, held), max(most_in_use, len(ends))
        nearest = ends[0][0] if ends else float("inf")
        if not came:
            nearest = min(nearest, people_at_ms)
        if nearest == float("inf"):
            break
        now = nearest
        while ends and ends[0][0] <= now:
            _, batch = heapq.heappop(ends)
            if batch:
                held -= 1
                longest_still = max(longest_still, now - last_batch_end)
                batch_done = last_batch_end = now
    waits.sort()
    p95 = nearest_rank(waits, 0.95) or 0.0
    over = max(0.0, p95 - PEOPLE_TARGET_MS)
    return Gate(
        throttled,
        people_at_ms,
        nearest_rank(waits, 0.5) or 0.0,
        p95,
        batch_done,
        most_batch,
        most_in_use,
        (
            Sign(over == 0, f"people: P95 {p95:.0f} ms, target {PEOPLE_TARGET_MS:.0f} ms"),
            signs.backlog(longest_still / 1000.0, BATCH_TASKS - batch_left),
            signs.total(most_in_use, PLACES),
        ),
    )


def _limit(people: int, now_ms: float) -> int:
    """Production's limit at a claim, with a capacity of eight learnt before."""
    now = EPOCH + timedelta(milliseconds=now_ms)
    state = State(
        limit=LESSON_BOUNDS.ceiling,
        reason=Reason.HEADROOM,
        decided_at=EPOCH,
        valid_until=EPOCH + timedelta(minutes=1),
        capacity=float(PLACES),
        interactive_level=float(people),
    )
    return limit_now(state, people, LESSON_BOUNDS, now)


def growth(seed: int = 0) -> Growth:
    """The second classic."""
    rng = np.random.default_rng(seed)
    priorities = [int(p) for p in rng.integers(0, 10, 10)]
    # Higher priority first, then the older: (−priority, number).
    waiting = [(-p, number, 1) for number, p in enumerate(priorities)]
    heapq.heapify(waiting)
    running: list[tuple[float, int, int, float, int]] = []
    served: list[Served] = []
    places, most, now = NODE_PLACES, 0, 0.0
    added_at, ready_at, why = None, float("inf"), ""
    while waiting or running:
        while waiting and len(running) < places:
            rank, number, attempt = heapq.heappop(waiting)
            heapq.heappush(running, (now + REQUEST_MS, number, rank, now, attempt))
        most = max(most, len(running))
        if added_at is None and waiting:
            if len(waiting) >= ADD_AT_WAITING:
                added_at, why = now, f"{len(waiting)} waiting"
            elif now >= ADD_AT_WAITED_MS:
                added_at, why = now, f"one waited {now / 1000:.1f} s"
            ready_at = now + NODE_START_MS if added_at is not None else ready_at
        now = min(running[0][0], ready_at)
        if now >= ready_at:
            places, ready_at = places + NODE_PLACES, float("inf")
        while running and running[0][0] <= now:
            _, number, rank, started, attempt = heapq.heappop(running)
            if rng.random() < FAILING:
                heapq.heappush(waiting, (rank, number, attempt + 1))
            else:
                served.append(Served(number, -rank, started, now, attempt))
    p95 = nearest_rank(sorted(s.ended_ms for s in served), 0.95) or 0.0
    return Growth(
        tuple(served),
        added_at,
        why,
        places,
        most,
        (
            Sign(p95 <= ADD_AT_WAITED_MS, f"people: P95 {p95:.0f} ms from the start to the answer"),
            Sign(len(served) == len(priorities), f"backlog: all {len(served)} requests answered"),
            signs.total(most, places),
        ),
    )


def both_gates(times_ms: Sequence[float] = (500.0, 300.0)) -> list[Gate]:
    """Without and with the throttle, for people who come at each of these times."""
    return [gate(throttled=t, people_at_ms=at) for at in times_ms for t in (False, True)]
