"""The pool's settings that follow from what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.domain.calibration.findings import (
    Knee,
    Targets,
    knee,
    micro_batch,
    people_capacity,
    saturation,
    targets_of,
)
from app.domain.calibration.fitting import ServerFit, fit
from app.domain.calibration.measured import BatchSize, Measured


@dataclass(frozen=True, slots=True)
class PoolNow:
    """What stands in the settings and is kept."""

    reserve: int
    batch_min: int
    others: int = 0
    """Places that the pool's other endpoints add."""
    endpoints: int = 1


@dataclass(frozen=True, slots=True)
class Proposal:
    """Settings of the pool and the endpoint by their names in giveway.toml; None: leave it out."""

    total: int
    batch_max: int
    target_p95_ms: int
    first_token_target_ms: int
    per_token_target_ms: float
    people_capacity: int | None
    max_batch_items: int | None = None
    max_batch_tokens: int | None = None

    @property
    def pool(self) -> dict[str, int | float]:
        """For `[[pools]]`."""
        values: dict[str, int | float | None] = {
            "total": self.total,
            "batch_max": self.batch_max,
            "target_p95_ms": self.target_p95_ms,
            "first_token_target_ms": self.first_token_target_ms,
            "per_token_target_ms": self.per_token_target_ms,
            "people_capacity": self.people_capacity,
        }
        return {name: value for name, value in values.items() if value is not None}

    @property
    def endpoint(self) -> dict[str, int | float]:
        """For `[[endpoints]]`."""
        values = {
            "max_batch_items": self.max_batch_items,
            "max_batch_tokens": self.max_batch_tokens,
        }
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Findings:
    """All that a calibration concludes."""

    targets: Targets
    saturation: int
    knee: Knee | None
    fit: ServerFit | None
    micro_batch: BatchSize | None
    batch_bound_ms: float
    proposal: Proposal


def concluded(measured: Measured, now: PoolNow) -> Findings:
    """What `measured` says for a pool as it is `now`."""
    targets = targets_of(measured.target_p95_ms, measured.idle)
    bound_ms = targets.first_token_ms / 2
    largest = micro_batch(measured.sizes, bound_ms)
    saturated = saturation(measured.levels)
    crowd = people_capacity(measured.steps, targets)
    total = max(saturated + now.others, now.reserve + now.batch_min)
    # Past saturation calls wait for a place, and the number in flight is not the number running.
    running = [level for level in measured.levels if level.running <= saturated]
    proposal = Proposal(
        total=total,
        batch_max=total - now.reserve,
        target_p95_ms=math.ceil(targets.p95_ms),
        first_token_target_ms=math.ceil(targets.first_token_ms),
        per_token_target_ms=math.ceil(targets.per_token_ms * 10) / 10,
        people_capacity=None if crowd is None else crowd * now.endpoints,
        max_batch_items=None if largest is None else largest.items,
        max_batch_tokens=None if largest is None else max(16, largest.tokens),
    )
    return Findings(
        targets,
        saturated,
        knee(measured.steps, targets.p95_ms),
        fit(running, measured.prompts),
        largest,
        bound_ms,
        proposal,
    )
