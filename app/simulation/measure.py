"""Figures of one run: both sides, always. Only what happens after the warm-up counts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from app.domain.throttle.samples import MISS_X, nearest_rank
from app.simulation.server import Call
from app.simulation.setup import Trace
from app.simulation.workloads import WARM_UP_S, Workload

_ENOUGH = 5
"""People in a window from which a quantile is worth naming."""


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


def settle_s(trace: Trace, workload: Workload) -> float | None:
    """Median over the workload's steps: seconds until batch in flight is where it then stays.

    "Where it stays" is its mean over the last half of the phase, give or take a fifth of it (at
    least four places); settled is the first second of five within that, of a 5 s mean, since people
    who come and go by chance move the limit in a settled state too. None: the load does not step.
    """
    times = np.asarray(trace.t)
    held = np.convolve(np.asarray(trace.batch_in_flight, dtype=float), np.full(5, 0.2), "same")
    found: list[float] = []
    for begin, end in pairwise([*workload.steps_s, workload.duration_s]):
        half = (times >= (begin + end) / 2) & (times < end - 3)
        aim = float(held[half].mean())
        early = (times >= begin) & (times < (begin + end) / 2)
        inside = np.abs(held[early] - aim) <= max(4.0, 0.2 * aim)
        stays = np.lib.stride_tricks.sliding_window_view(inside, 5).all(axis=1)
        found.append(float(np.argmax(stays)) if stays.any() else float(end - begin))
    return statistics.median(found) if found else None


def limit_swing(trace: Trace, workload: Workload) -> float | None:
    """Standard deviation of the limit over its mean, the mean of the workload's steady spans.

    It holds the law's own swing and the honest following of people who come and go by chance.
    None: the load has no steady span.
    """
    times, limits = np.asarray(trace.t), np.asarray(trace.limit, dtype=float)
    spans = [limits[(times >= a) & (times < b)] for a, b in workload.steady_s]
    return float(np.mean([s.std() / s.mean() for s in spans])) if spans else None


def after_surges(people: Sequence[Call], workload: Workload, within_s: float = 20.0) -> list[Call]:
    """Those who came in the seconds after a surge."""
    return [
        c
        for c in people
        if any(end <= c.submitted_at < end + within_s for _, end in workload.surges_s)
    ]


def longest_late_s(people: Sequence[Call], alone: Sequence[Call], window_s: float = 10.0) -> int:
    """The longest run of seconds in which people were late with batch and not without.

    Late: x at P95 over 1, over those who came in the last `window_s`; where fewer than five came,
    two late of the last five, so that one chance miss of a sparse load is no long trouble.
    """
    came = np.asarray([c.submitted_at for c in people])
    with_batch, without = np.asarray(_xs(people)), np.asarray(_xs(alone))
    longest = run = 0
    for second in range(int(came[-1]) + 1 if len(came) else 0):
        low, high = np.searchsorted(came, [second + 1 - window_s, second + 1.0])
        few = high - low < _ENOUGH
        low = max(0, high - _ENOUGH) if few else low
        allowed = 1 if few else math.floor(0.05 * (high - low))
        seen = slice(low, high)
        late = (with_batch[seen] > MISS_X).sum() > allowed >= (without[seen] > MISS_X).sum()
        run = run + 1 if late else 0
        longest = max(longest, run)
    return longest


def longest_still_s(trace: Trace) -> float:
    """The longest time after the warm-up in which no batch work was done at all."""
    longest, since = 0.0, WARM_UP_S
    for (_, before), (t, done) in pairwise(zip(trace.t, trace.batch_tokens, strict=True)):
        if t <= WARM_UP_S or done > before:
            since = t
        longest = max(longest, t - since)
    return longest


def _xs(people: Sequence[Call]) -> list[float]:
    return [math.inf if math.isnan(c.x) else c.x for c in people]
