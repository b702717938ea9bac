"""The oracle: the most batch work that a limit could have let through, known only in hindsight.

It is a limit for every second of the run, found by trying whole runs with the same seed. The rule
it must keep: at most one request in a hundred more misses its target than without batch, or than
with batch at its floor where that alone costs people something (no limit is ever under the floor).
It is not a bound from theory but the best schedule that a search with perfect knowledge finds:

1. It knows the people of every second beforehand (from the run without batch) and takes
   limit(t) = C − w · most people in flight in [t, t + h], the best C for several w and h.
2. It also takes the limits that the default policy set in this run, scaled to just keep the rule.
3. From the better of the two it learns from its own replays: seconds in which somebody was late are
   lowered, seconds in which nobody came near are raised, and the whole is scaled to just keep the
   rule; the best is kept.

A controller has to find out from late people what the oracle knows beforehand, so a share of 1.0 is
not to be had by luck; a share above it means that the search has missed something, and is shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.simulation.measure import batch_tokens_per_s, counted, on_target
from app.simulation.setup import Setup, Trace
from app.simulation.world import simulate

GIVEN_UP = 0.01
"""Share of requests that may miss because of batch."""
Seconds = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Found:
    """The best schedule and what it did."""

    limits: tuple[float, ...]
    on_target: float
    tokens_per_s: float
    runs: int
    """Whole runs that the search took."""


class _Search:
    def __init__(self, setup: Setup, alone: Trace) -> None:
        self.setup = setup
        self.people = counted(alone, setup.workload)
        self.need = on_target(self.people) - GIVEN_UP
        self.runs = 0
        self.best: Found | None = None
        self.last: Trace | None = None

    def floor(self, limits: Seconds) -> None:
        """Nothing can be asked of the oracle that the floor itself does not give."""
        trace = simulate(replace(self.setup, limits=tuple(limits), batch=True))
        share = on_target(counted(trace, self.setup.workload))
        self.need = min(self.need, share - GIVEN_UP)
        self.attempt(limits)

    def attempt(self, limits: Seconds) -> bool:
        """Whether these limits keep the rule; remembers the best that do."""
        schedule = tuple(float(x) for x in limits)
        trace = simulate(replace(self.setup, limits=schedule, batch=True))
        self.last = trace
        self.runs += 1
        share = on_target(counted(trace, self.setup.workload))
        work = batch_tokens_per_s(trace, self.setup.workload)
        kept = share >= self.need
        if kept and (self.best is None or work > self.best.tokens_per_s):
            self.best = Found(schedule, share, work, self.runs)
        return kept

    def scaled(self, shape: Seconds, low: float, high: float, turns: int) -> float:
        """The largest factor in [low, high], to within 2^-turns, for which shape·factor is kept."""
        for _ in range(turns):
            middle = (low + high) / 2
            if self.attempt(shape * middle):
                low = middle
            else:
                high = middle
        return low


def most_ahead(values: Seconds, ahead: int) -> Seconds:
    """For each second the largest value from it to `ahead` seconds later."""
    padded = np.concatenate([values, np.full(ahead, values[-1] if len(values) else 0.0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, ahead + 1)
    most: Seconds = windows.max(axis=1)
    return most


def find(
    setup: Setup, alone: Trace, hints: Sequence[Sequence[float]] = (), refinements: int = 16
) -> Found:
    """The oracle's schedule for this workload and seed; `alone` is the run without batch.

    `hints` are limits by second that some policy set in this very run: further starts.
    """
    search = _Search(setup, alone)
    people = np.asarray(alone.interactive_in_flight, dtype=np.float64)
    ceiling, floor = setup.bounds.ceiling, setup.bounds.floor
    best_shape, best_work = np.full(len(people), float(floor)), -1.0
    search.floor(best_shape)
    for ahead in (2, 5):
        for weight in (0.7, 1.2):
            taken = weight * most_ahead(people, ahead)
            low, high = float(floor), float(ceiling + taken.max())
            for _ in range(7):
                capacity = (low + high) / 2
                shape = np.clip(capacity - taken, floor, ceiling)
                if search.attempt(shape):
                    low = capacity
                    if search.best is not None and search.best.tokens_per_s > best_work:
                        best_work, best_shape = search.best.tokens_per_s, shape
                else:
                    high = capacity
    for hint in hints:
        taken = np.clip(np.asarray(hint, dtype=np.float64), floor, ceiling)
        taken = np.pad(taken, (0, max(0, len(people) - len(taken))), mode="edge")[: len(people)]
        before = search.best.tokens_per_s if search.best is not None else -1.0
        scaled = np.clip(taken * search.scaled(taken, 0.7, 1.3, 5), floor, ceiling)
        if search.best is not None and search.best.tokens_per_s > before:
            best_shape = scaled
    shape = best_shape
    for turn in range(refinements):
        search.attempt(shape)
        pain = _pain(search, len(shape))
        gain = 0.5 / (1 + turn / 4)
        shape = np.clip(shape * np.clip(1 + gain * (1 - pain), 0.7, 1.15), floor, ceiling)
        if turn % 4 == 3:
            shape = np.clip(shape * search.scaled(shape, 0.85, 1.15, 4), floor, ceiling)
    assert search.best is not None  # the floor keeps the rule by its definition
    return replace(search.best, runs=search.runs)


def _pain(search: _Search, seconds: int) -> Seconds:
    """For each second the worst x of the people there then, past those who may be given up.

    People who are late without batch too do not count. A batch call that starts now is felt for
    some seconds, so each second takes the worst of the four that follow.
    """
    assert search.last is not None
    late_alone = [c.x > 1.0 for c in search.people]
    now = counted(search.last, search.setup.workload)
    felt = [(c, c.x) for c, late in zip(now, late_alone, strict=True) if not late]
    felt.sort(key=lambda pair: -pair[1])
    given_up = math.floor(GIVEN_UP * len(now))
    pain = np.full(seconds, 0.5)
    for call, x in felt[given_up:]:
        end = call.ended_at if call.ended_at is not None else call.submitted_at + 30
        pain[int(call.submitted_at) : int(end) + 1] = np.maximum(
            pain[int(call.submitted_at) : int(end) + 1], x
        )
    return most_ahead(pain, 4)
