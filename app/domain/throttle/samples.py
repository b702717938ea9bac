"""How one interactive request becomes a sample: its ratio to the target, and whose fault a miss is.

This is the definition; the SQL of the reading says the same over rows and is tested against it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from app.domain.throttle.kv import mean_held
from app.domain.throttle.readings import Gauges, Reading
from app.domain.throttle.values import PolicySettings

MISS_X = 1.0
NEAR_X = 0.8
OVERLOAD_CODES = frozenset({"timeout", "overloaded", "rate_limited"})
"""Failures that mean "too much": each is a miss. Any other failure says nothing about load."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One interactive request as its row tells it, at the time of the reading."""

    age_ms: float
    """Submission to now, or to the end when it has ended."""
    first_token_ms: float | None = None
    """Submission to first token; None: none yet, or a call that does not stream."""
    output_tokens: int | None = None
    """Tokens given so far; None: unknown while it streams."""
    prompt_tokens: int | None = None
    finished: bool = False
    streams: bool = True
    error_code: str | None = None
    queue_wait_ms: float | None = None
    submitted_at: datetime | None = None
    """None: since the last cut, whenever that was."""
    ahead: int = 0
    """Other interactive requests of the pool that were in flight when this one was submitted."""


def x_of(sample: Sample, settings: PolicySettings) -> float | None:
    """Worst ratio of time to target; None: the request is no sample (failed for its own reasons).

    finished, streamed, long output:   the worse of first token and time per token
    finished, short or not streamed:   the whole time
    in flight with a first token:      first token, and time per token where tokens are counted
    in flight without a first token:   its age, against the first-token target if it streams
    """
    if sample.error_code is not None:
        over = max(sample.age_ms / settings.first_token_target_ms, math.nextafter(MISS_X, 2))
        return over if sample.error_code in OVERLOAD_CODES else None
    tokens = sample.output_tokens
    short = tokens is not None and tokens <= settings.short_output_tokens
    if not sample.streams or (sample.finished and (short or sample.first_token_ms is None)):
        return sample.age_ms / settings.target_p95_ms
    if sample.first_token_ms is None:
        return sample.age_ms / settings.first_token_target_ms
    first = sample.first_token_ms / settings.first_token_target_ms
    if tokens is None or short or tokens < 2:
        return first
    per_token_ms = (sample.age_ms - sample.first_token_ms) / (tokens - 1)
    return max(first, per_token_ms / settings.per_token_target_ms)


def attributable(sample: Sample, settings: PolicySettings) -> bool:
    """Whether less batch could have helped: too few people were ahead to make it late alone.

    The settings are those of `feedforward.blaming`, which know how many people that is.
    """
    return settings.people_capacity is None or sample.ahead < settings.people_capacity


def answered(sample: Sample, settings: PolicySettings) -> bool:
    """Whether capacity has been cut since it was submitted: late or not, it had its answer then.

    One surge makes people late for as long as batch takes to drain, and they stay in the window
    for as long as that is. To cut for each of them again and again would take capacity to nothing.
    """
    if settings.answered_at is None or sample.submitted_at is None:
        return False
    return sample.submitted_at < settings.answered_at


def nearest_rank(ordered: Sequence[float], share: float) -> float | None:
    """The `share` quantile of ascending values: the smallest that at least `share` of them do not
    pass (SQL's `percentile_disc`). None: no values."""
    if not ordered:
        return None
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summarise(
    samples: Sequence[Sample],
    settings: PolicySettings,
    computed_at: datetime,
    *,
    arrivals: int,
    interactive_recent_peak: int = 0,
    batch_in_flight: int = 0,
    batch_waiting: int = 0,
    batch_per_s: float | None = None,
    batch_round_trip_ms: float | None = None,
    batch_kv_tokens: float | None = None,
    refused: int = 0,
    gauges: Gauges | None = None,
) -> Reading:
    """The reading of `samples`: all requests that ended in the window, and all in flight now.

    `arrivals` are the submissions in the window.
    """
    ended = [s for s in samples if s.finished]
    good = [s for s in ended if s.error_code is None]
    flying = [s for s in samples if not s.finished]
    whole = sorted(s.age_ms for s in good)
    first = sorted(s.first_token_ms for s in samples if s.first_token_ms is not None)
    per_token = sorted(
        (s.age_ms - s.first_token_ms) / (s.output_tokens - 1)
        for s in good
        if s.first_token_ms is not None and s.output_tokens is not None and s.output_tokens > 1
    )
    queued = sorted(s.queue_wait_ms for s in samples if s.queue_wait_ms is not None)
    rated = [(s, x) for s in samples if (x := x_of(s, settings)) is not None]
    ours = sorted(x for s, x in rated if attributable(s, settings))
    new = [x for s, x in rated if attributable(s, settings) and not answered(s, settings)]
    waiting = [s for s in flying if s.first_token_ms is None and s.streams]
    blamed = [s.age_ms for s in waiting if attributable(s, settings)]
    return Reading(
        computed_at=computed_at,
        window_s=settings.window_s,
        arrivals_per_s=arrivals / settings.window_s,
        completions_per_s=len(good) / settings.window_s,
        failed=len(ended) - len(good),
        refused=refused,
        p50_ms=nearest_rank(whole, 0.50),
        p95_ms=nearest_rank(whole, 0.95),
        p99_ms=nearest_rank(whole, 0.99),
        first_token_p95_ms=nearest_rank(first, 0.95),
        per_token_p95_ms=nearest_rank(per_token, 0.95),
        queue_wait_p95_ms=nearest_rank(queued, 0.95),
        share_over_target=sum(x > MISS_X for _, x in rated) / len(rated) if rated else None,
        samples=len(ours),
        misses=sum(x > MISS_X for x in new),
        nears=sum(x > NEAR_X for x in ours),
        x_p95=nearest_rank(ours, 0.95),
        everybody_x_p95=nearest_rank(sorted(x for _, x in rated), 0.95),
        everybody_waits_s=max((s.age_ms for s in waiting), default=0.0) / 1000.0,
        not_attributable=len(rated) - len(ours),
        waiting=len(waiting),
        waiting_over_target=sum(age > settings.first_token_target_ms for age in blamed),
        oldest_waiting_s=max(blamed, default=0.0) / 1000.0,
        interactive_in_flight=len(flying),
        interactive_recent_peak=max(interactive_recent_peak, len(flying)),
        batch_in_flight=batch_in_flight,
        batch_waiting=batch_waiting,
        batch_per_s=batch_per_s,
        batch_round_trip_ms=batch_round_trip_ms,
        people_kv_tokens=mean_held(
            (s.age_ms - (s.queue_wait_ms or 0.0), s.prompt_tokens, s.output_tokens) for s in good
        ),
        batch_kv_tokens=batch_kv_tokens,
        gauges=gauges,
    )
