"""Figures of one run: both sides, always. Only what happens after the warm-up counts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from app.domain.throttle.samples import MISS_X, nearest_rank
from app.simulation.server import Call
from app.simulation.workloads import WARM_UP_S, Workload
from app.simulation.world import Trace


def counted(trace: Trace, workload: Workload) -> list[Call]:
    """The people who arrived after the warm-up."""
    return [c for c in trace.people if WARM_UP_S <= c.submitted_at < workload.duration_s]


def on_target(people: Sequence[Call]) -> float:
    """Share of requests with x ≤ 1, 0 to 1; whoever never ended was not on target. 1 for nobody."""
    if not people:
        return 1.0
    return sum(c.x <= MISS_X for c in people) / len(people)


def batch_tokens_per_s(trace: Trace, workload: Workload) -> float:
    """Batch work per second: tokens read and given and not thrown away."""
    times = np.asarray(trace.t)
    begin = int(np.searchsorted(times, WARM_UP_S))
    end = int(np.searchsorted(times, workload.duration_s, side="right")) - 1
    if end <= begin:
        return 0.0
    done = trace.batch_tokens[end] - trace.batch_tokens[begin]
    return float(done / (times[end] - times[begin]))


def whole_ms(people: Sequence[Call], share: float) -> float | None:
    """The `share` quantile of submission to last token; None: nobody."""
    return nearest_rank(
        sorted((c.ended_at - c.submitted_at) * 1000 for c in people if c.ended_at is not None),
        share,
    )


def first_token_ms(people: Sequence[Call], share: float) -> float | None:
    return nearest_rank(
        sorted((c.first_at - c.submitted_at) * 1000 for c in people if c.first_at is not None),
        share,
    )


def per_token_ms(people: Sequence[Call], share: float) -> float | None:
    return nearest_rank(
        sorted(
            (c.ended_at - c.first_at) * 1000 / (c.output - 1)
            for c in people
            if c.ended_at is not None and c.first_at is not None and c.output > 1
        ),
        share,
    )


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
