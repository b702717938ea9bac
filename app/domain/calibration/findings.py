"""Where an endpoint's limits are: saturation, knee, a crowd of people, the batch that fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.calibration.measured import BatchSize, Idle, Level, RateStep
from app.domain.throttle.samples import NEAR_X, x_of
from app.domain.throttle.values import PolicySettings

WORTHWHILE = 1.10
"""More in flight must give at least so many times the throughput."""
_SOLID = 3
"""Calls that found so many people ahead, until their number says anything."""


@dataclass(frozen=True, slots=True)
class Targets:
    """What a request may take, in milliseconds."""

    p95_ms: float
    first_token_ms: float
    per_token_ms: float


@dataclass(frozen=True, slots=True)
class Knee:
    """Between which rates the P95 leaves the target."""

    rps: float
    reached: bool
    """False: every rate tried kept the target, and `rps` is the highest of them."""


def targets_of(p95_ms: float, idle: Idle) -> Targets:
    """The target's slack over a call that is alone, half of it for waiting, half for slow tokens.

    So a call that uses up both is on target just so.
    """
    slack_ms = max(0.0, p95_ms - idle.p95_ms)
    gaps = max(1.0, idle.output_tokens - 1)
    return Targets(
        p95_ms,
        idle.first_token_p95_ms + slack_ms / 2,
        idle.per_token_p95_ms + slack_ms / 2 / gaps,
    )


def saturation(levels: Sequence[Level]) -> int:
    """The number in flight past which more give less than a tenth more throughput."""
    best = levels[0]
    for level in levels[1:]:
        # As much as doubling must give, for steps that are less than a doubling.
        needed = 1 + (WORTHWHILE - 1) * (level.running / best.running - 1)
        if level.tokens_per_s < best.tokens_per_s * needed:
            break
        best = level
    return best.running


def knee(steps: Sequence[RateStep], target_ms: float) -> Knee | None:
    """Where the P95 leaves `target_ms`, on the line between the last rate that keeps it and the
    next; None: the lowest rate does not keep it."""
    kept: RateStep | None = None
    for step in steps:
        if not step.keeps(target_ms):
            return None if kept is None else Knee(_crossing(kept, step, target_ms), reached=True)
        kept = step
    return None if kept is None else Knee(kept.rps, reached=False)


def _crossing(kept: RateStep, left: RateStep, target_ms: float) -> float:
    low_ms, high_ms = kept.p95_ms, left.p95_ms
    if low_ms is None or high_ms is None or high_ms <= target_ms:
        return kept.rps  # It failed in another way than by being slow.
    return kept.rps + (left.rps - kept.rps) * (target_ms - low_ms) / (high_ms - low_ms)


def people_capacity(steps: Sequence[RateStep], targets: Targets) -> int | None:
    """People in flight who alone, without batch, make the next one's x 0.8; None: never so many.

    x is taken to rise with the people ahead: means over them that fall are put together until they
    rise (isotonic regression).
    """
    settings = PolicySettings(
        target_p95_ms=targets.p95_ms,
        first_token_target_ms=targets.first_token_ms,
        per_token_target_ms=targets.per_token_ms,
    )
    found: dict[int, list[float]] = {}
    for step in steps:
        for call in step.calls:
            sample = call.sample()
            x = None if sample is None else x_of(sample, settings)
            if x is not None:
                found.setdefault(call.ahead, []).append(x)
    blocks: list[tuple[int, float, int]] = []
    for ahead in sorted(found):
        first, total, count = ahead, sum(found[ahead]), len(found[ahead])
        while blocks and (blocks[-1][2] < _SOLID or blocks[-1][1] / blocks[-1][2] >= total / count):
            before = blocks.pop()
            first, total, count = before[0], total + before[1], count + before[2]
        blocks.append((first, total, count))
    crowded = (
        first
        for first, total, count in blocks
        if count >= _SOLID and total / count >= NEAR_X and first > 0
    )
    return next(crowded, None)


def micro_batch(sizes: Sequence[BatchSize], bound_ms: float) -> BatchSize | None:
    """The largest batch whose call stays under `bound_ms`; the smallest where none does."""
    if not sizes:
        return None
    under = [size for size in sizes if size.call_ms <= bound_ms]
    return max(under, key=lambda size: size.items) if under else sizes[0]
