"""A reading: what the last window says about the people who wait, and about the endpoint.

One SQL makes it in production; `samples.summarise` makes the same from plain samples, for the
simulator and for the tests of that SQL. Every figure may be unknown: "nothing known" is a reading.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from app.domain.throttle.codec import from_plain, to_plain


@dataclass(frozen=True, slots=True)
class Gauges:
    """What the endpoint says about itself; None where it says nothing."""

    engine_waiting: int | None = None
    """Requests queued inside the engine (`vllm:num_requests_waiting`), of both classes."""
    engine_running: int | None = None
    """Requests in the engine's running batch (`vllm:num_requests_running`), of both classes."""
    kv_usage: float | None = None
    """Share of KV memory in use, 0 to 1 (`vllm:kv_cache_usage_perc`)."""
    preemptions_rising: bool = False
    """The engine threw running requests out of KV memory since the reading before."""
    kv_capacity_tokens: int | None = None
    """Tokens that fit into KV memory, where calibration or the engine told."""
    age_s: float = 0.0
    """How old these gauges are; past `PolicySettings.gauges_stale_s` they count as unknown."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The window before `computed_at`, of one pool: interactive requests, where not said otherwise.

    *x* of a request is its worst ratio of time to target (see `samples.x_of`); a sample is
    *attributable* when batch could have made it late (see `samples.attributable`).
    """

    computed_at: datetime
    window_s: float = 10.0

    arrivals_per_s: float = 0.0
    completions_per_s: float = 0.0
    failed: int = 0
    """Requests that ended in an error in the window. None of them counts as fast."""
    refused: int = 0
    """429 and 503 that the endpoint gave in the last `tick`, to calls of either class."""

    p50_ms: float | None = None
    """Submission to last token of requests finished in the window, without failures; None: none."""
    p95_ms: float | None = None
    p99_ms: float | None = None
    first_token_p95_ms: float | None = None
    """Submission to first token, of requests that got it in the window."""
    per_token_p95_ms: float | None = None
    """(last token − first token) / (tokens − 1), of streamed requests finished in the window."""
    queue_wait_p95_ms: float | None = None
    """Submission to the start of the call: our own queue, apart from the endpoint's service."""
    share_over_target: float | None = None
    """Share of all samples with x > 1, attributable or not, 0 to 1; None: no samples."""

    samples: int = 0
    """Attributable samples: finished in the window, and in flight now."""
    misses: int = 0
    """Attributable samples with x > 1.0, submitted since the last cut: the others have had it."""
    nears: int = 0
    """Attributable samples with x > 0.8, all misses among them."""
    x_p95: float | None = None
    """95th percentile of x over the attributable samples; 1.0 is exactly on target."""
    everybody_x_p95: float | None = None
    """The same over all samples, whosever fault a miss is. None: no samples, or a row of before."""
    everybody_waits_s: float = 0.0
    """Age of the oldest request without a first token, whosever fault that is; 0: there is none."""
    not_attributable: int = 0
    """Samples left out, because interactive work alone would have made them late."""

    waiting: int = 0
    """Requests without a first token now (queued with us or in the endpoint)."""
    waiting_over_target: int = 0
    """Those of them, attributable, that are older than the first-token target already."""
    oldest_waiting_s: float = 0.0
    """Age of the oldest attributable request without a first token; 0 when there is none."""

    interactive_in_flight: int = 0
    """Requests between submission and last token now."""
    interactive_recent_peak: int = 0
    """Most in flight at once since about a tick ago; at least `interactive_in_flight`."""

    batch_in_flight: int = 0
    """Batch requests in flight now: live leases."""
    batch_waiting: int = 0
    """Batch work that could start at once, were there places (ready chunks, capped in the SQL)."""
    batch_per_s: float | None = None
    """Batch work done per second (tokens, or items where the kind has none); None: unknown."""
    batch_round_trip_ms: float | None = None
    """Mean whole time of batch calls that ended in the window; None: none did."""

    batch_samples: int = 0
    """Streamed batch calls that ended in the window and were timed: batch is its own probe. They
    sit in the same engine steps as people do, and tell how people would fare."""
    batch_x_p95: float | None = None
    """95th percentile of x over those calls, by the people's first-token and per-token targets."""

    people_tokens_per_place_s: float | None = None
    """Tokens, read and given, of people's requests that ended in the window, for each second that
    one of them was at the endpoint: what one person loads it with. None: none ended."""
    batch_tokens_per_place_s: float | None = None
    """The same of batch calls."""

    people_kv_tokens: float | None = None
    """KV memory that a person's request in flight holds, by those that ended in the window (see
    `kv.mean_held`); None: none ended."""
    batch_kv_tokens: float | None = None
    """The same of batch calls."""

    gauges: Gauges | None = None

    @property
    def sound(self) -> bool:
        """Whether the numbers can be true: finite, not negative, counts that fit each other."""
        numbers = [
            self.window_s,
            self.arrivals_per_s,
            self.completions_per_s,
            self.failed,
            self.refused,
            self.p50_ms,
            self.p95_ms,
            self.p99_ms,
            self.first_token_p95_ms,
            self.per_token_p95_ms,
            self.queue_wait_p95_ms,
            self.share_over_target,
            self.misses,
            self.x_p95,
            self.everybody_x_p95,
            self.everybody_waits_s,
            self.not_attributable,
            self.waiting,
            self.waiting_over_target,
            self.oldest_waiting_s,
            self.interactive_in_flight,
            self.interactive_recent_peak,
            self.batch_in_flight,
            self.batch_waiting,
            self.batch_per_s,
            self.batch_round_trip_ms,
            self.batch_samples,
            self.batch_x_p95,
            self.people_tokens_per_place_s,
            self.batch_tokens_per_place_s,
            self.people_kv_tokens,
            self.batch_kv_tokens,
        ]
        if self.gauges is not None:
            g = self.gauges
            numbers += [
                g.engine_waiting,
                g.engine_running,
                g.kv_usage,
                g.kv_capacity_tokens,
                g.age_s,
            ]
        if any(n is not None and not (math.isfinite(n) and n >= 0) for n in numbers):
            return False
        return self.misses <= self.nears <= self.samples and self.computed_at.tzinfo is not None

    def to_json(self) -> dict[str, Any]:
        """Plain values for the decisions table; `from_json` gives back an equal reading."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        return from_plain(cls, plain)
