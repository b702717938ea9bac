"""One run: for each seed people alone, batch alone, then every contender under every load."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.throttle.contenders import DEDICATED, NO_BATCH, running
from benchmarks.throttle.figures import Run, items_per_s, latency_ms, runs, targets
from benchmarks.throttle.legs import Leg, batch_alone, play
from benchmarks.throttle.loads import Load
from benchmarks.throttle.scenes import Scene
from benchmarks.throttle.stage import Stage

_DEDICATED_S = 15.0
_ITEMS_MORE = 1.5
"""The backfill is so many times what a dedicated run would do meanwhile: it never ends early."""
_LEAST_ITEMS = 50_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run. `rps` is what people reach in the step's surge; `scale` stretches calm phases.

    `warm_up_s` comes before a contender's first load, `pause_s` before each later one; people come
    in both, and are not counted.
    """

    scene: Scene
    loads: tuple[str, ...]
    contenders: tuple[str, ...]
    seeds: tuple[int, ...]
    scale: float
    rps: float
    warm_up_s: float = 15.0
    pause_s: float = 4.0

    @property
    def loaded(self) -> list[Load]:
        """The loads, in order."""
        return [self.scene.load(name, self.scale, self.rps) for name in self.loads]

    @property
    def seconds(self) -> float:
        """Of one contender, without starting and stopping."""
        pauses = self.pause_s * (len(self.loads) - 1)
        return self.warm_up_s + pauses + sum(load.seconds for load in self.loaded)


@dataclass(frozen=True, slots=True)
class Outcome:
    """All figures, the legs they come from, and how long it took."""

    runs: tuple[Run, ...]
    legs: tuple[Leg, ...]
    dedicated_items_per_s: dict[int, float]
    failures: tuple[str, ...]
    """Contenders that could not be run to their end, and why."""
    seconds: float


def run(plan: Plan, stage: Stage, tell: Callable[[str], None]) -> Outcome:
    """Everything, one after the other; `tell` is told each contender as it begins."""
    began = time.monotonic()
    figures: list[Run] = []
    legs: list[Leg] = []
    dedicated: dict[int, float] = {}
    failures: list[str] = []
    for seed in plan.seeds:
        tell(f"seed {seed}: {NO_BATCH}")
        with running(NO_BATCH, stage, None, 0) as one:
            alone = _played(NO_BATCH, plan, seed, partial(play, NO_BATCH, one, stage), tell)
        told = targets(next(leg for leg in alone if leg.load.name == "steady"))
        tell(f"seed {seed}: {DEDICATED}")
        with running(DEDICATED, stage, None, 0):
            only = batch_alone(DEDICATED, stage, min(_DEDICATED_S, plan.seconds), 3.0, seed)
        dedicated[seed] = items_per_s(only)
        items = max(_LEAST_ITEMS, round(dedicated[seed] * plan.seconds * _ITEMS_MORE))
        with_batch: list[Leg] = []
        for name in plan.contenders:
            tell(f"seed {seed}: {name}")
            try:
                with running(name, stage, told, items) as one:
                    with_batch += _played(name, plan, seed, partial(play, name, one, stage), tell)
            except Exception as error:  # noqa: BLE001 - one that fails voids itself, not the others
                failures.append(f"{name}, seed {seed}: {type(error).__name__}: {error}")
                tell(failures[-1])
        figures += runs(with_batch, alone, dedicated[seed], told)
        legs += [*alone, *with_batch]
    return Outcome(
        tuple(figures), tuple(legs), dedicated, tuple(failures), time.monotonic() - began
    )


def _played(
    name: str,
    plan: Plan,
    seed: int,
    leg: Callable[[Load, int, float], Leg],
    tell: Callable[[str], None],
) -> Sequence[Leg]:
    warm_up_s = plan.warm_up_s if name != NO_BATCH else plan.pause_s
    played = []
    for load in plan.loaded:
        one = leg(load, seed, warm_up_s)
        p95_ms = latency_ms(one, 0.95)
        told = "some got no answer" if p95_ms is None else f"P95 {p95_ms:,.0f} ms"
        tell(f"  {load.name}: {told}, {items_per_s(one):,.0f} items/s")
        played.append(one)
        warm_up_s = plan.pause_s
    return played
