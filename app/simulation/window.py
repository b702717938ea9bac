"""The last seconds of a run, and the reading of them: what one SQL does in production.

`samples.summarise` defines it; this makes the same in one pass over calls that were rated when they
ended, since a reading is made for every simulated second. A test holds the two together.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from app.domain.throttle.kv import mean_held
from app.domain.throttle.readings import Gauges, Reading
from app.domain.throttle.samples import MISS_X, NEAR_X, Sample, nearest_rank, x_of
from app.domain.throttle.values import PolicySettings
from app.simulation.server import Call

ALWAYS_MORE = 1_000
"""The backlog of the simulator has no end."""


def sample_of(call: Call, t: float) -> Sample:
    """The interactive `call` as its row would tell it at `t`."""
    ended = call.ended_at is not None
    end = call.ended_at if call.ended_at is not None else t
    first = call.first_at if call.streams else None
    return Sample(
        age_ms=(end - call.submitted_at) * 1000.0,
        first_token_ms=None if first is None else (first - call.submitted_at) * 1000.0,
        output_tokens=call.output if ended else None,
        prompt_tokens=call.prompt,
        finished=ended,
        streams=call.streams,
        ahead=call.ahead,
    )


@dataclass(frozen=True, slots=True)
class Now:
    """The present of the pool, as far as the window does not know it."""

    at: datetime
    flying: Collection[Call]
    """Interactive calls between submission and last token."""
    peak: int
    batch_in_flight: int
    refused: int
    gauges: Gauges | None


class Window:
    """What happened lately, each kind of event in order of time."""

    def __init__(self, policy: PolicySettings) -> None:
        self.policy = policy
        self.ended: deque[tuple[float, Call]] = deque()
        self._arrived: deque[float] = deque()
        self._batch: deque[tuple[float, Call, float]] = deque()
        self._probes: deque[tuple[float, float]] = deque()

    def person_came(self, t: float) -> None:
        self._arrived.append(t)

    def person_ended(self, call: Call, t: float) -> None:
        """Rates the call for good."""
        self.ended.append((t, call))
        x = x_of(sample_of(call, t), self.policy)
        call.x = 0.0 if x is None else x

    def batch_ended(self, call: Call, t: float, trip_s: float, *, probe: bool) -> None:
        """A batch call is done after `trip_s`; as a `probe` it speaks for people as well."""
        self._batch.append((t, call, trip_s))
        if probe and call.streams and call.output > 1 and call.first_at is not None:
            policy = self.policy
            first = (call.first_at - call.submitted_at) * 1000.0 / policy.first_token_target_ms
            each = (t - call.first_at) * 1000.0 / (call.output - 1) / policy.per_token_target_ms
            self._probes.append((t, max(first, each)))

    def round_trip_s(self, t: float) -> float:
        """Mean whole time of the batch calls of the window; 0 when none ended."""
        trips = [trip for at, _, trip in self._batch if at >= t - self.policy.window_s]
        return sum(trips) / len(trips) if trips else 0.0

    def reading(
        self, t: float, now: Now, people_capacity: int | None, answered_at: datetime | None = None
    ) -> Reading:
        """The reading at `t`; who found `people_capacity` people ahead is not batch's fault, and a
        miss from before `answered_at` is no new one."""
        self._forget(t - self.policy.window_s)
        bound = math.inf if people_capacity is None else people_capacity
        cut_s = -math.inf if answered_at is None else t - (now.at - answered_at).total_seconds()
        xs: list[float] = []
        everybody: list[float] = []
        whole: list[float] = []
        over = left_out = waiting = late = misses = 0
        oldest_ms = longest_ms = 0.0
        for _, call in self.ended:
            over += call.x > 1.0
            everybody.append(call.x)
            if call.ahead < bound:
                xs.append(call.x)
                misses += call.x > MISS_X and call.submitted_at >= cut_s
            else:
                left_out += 1
            if call.ended_at is not None:
                whole.append((call.ended_at - call.submitted_at) * 1000.0)
        for call in now.flying:
            sample = sample_of(call, t)
            x = x_of(sample, self.policy) or 0.0
            over += x > 1.0
            everybody.append(x)
            waits = call.first_at is None and call.streams
            waiting += waits
            if waits:
                longest_ms = max(longest_ms, sample.age_ms)
            if call.ahead >= bound:
                left_out += 1
                continue
            xs.append(x)
            misses += x > MISS_X and call.submitted_at >= cut_s
            if waits:
                oldest_ms = max(oldest_ms, sample.age_ms)
                late += sample.age_ms > self.policy.first_token_target_ms
        xs.sort()
        whole.sort()
        window_s = self.policy.window_s
        trips = [trip for _, _, trip in self._batch]
        total = len(xs) + left_out
        return Reading(
            computed_at=now.at,
            window_s=window_s,
            arrivals_per_s=len(self._arrived) / window_s,
            completions_per_s=len(whole) / window_s,
            refused=now.refused,
            p50_ms=nearest_rank(whole, 0.50),
            p95_ms=nearest_rank(whole, 0.95),
            p99_ms=nearest_rank(whole, 0.99),
            share_over_target=over / total if total else None,
            samples=len(xs),
            misses=misses,
            nears=sum(x > NEAR_X for x in xs),
            x_p95=nearest_rank(xs, 0.95),
            everybody_x_p95=nearest_rank(sorted(everybody), 0.95),
            everybody_waits_s=longest_ms / 1000.0,
            not_attributable=left_out,
            waiting=waiting,
            waiting_over_target=late,
            oldest_waiting_s=oldest_ms / 1000.0,
            interactive_in_flight=len(now.flying),
            interactive_recent_peak=now.peak,
            batch_in_flight=now.batch_in_flight,
            batch_waiting=ALWAYS_MORE,
            batch_per_s=sum(call.prompt + call.output for _, call, _ in self._batch) / window_s,
            batch_round_trip_ms=1000.0 * sum(trips) / len(trips) if trips else None,
            batch_samples=len(self._probes),
            batch_x_p95=nearest_rank(sorted(x for _, x in self._probes), 0.95),
            people_kv_tokens=mean_held(
                (call.ended_at - call.submitted_at, call.prompt, call.output)
                for _, call in self.ended
                if call.ended_at is not None
            ),
            batch_kv_tokens=mean_held(
                (trip, call.prompt, call.output) for _, call, trip in self._batch
            ),
            gauges=now.gauges,
        )

    def _forget(self, before: float) -> None:
        while self.ended and self.ended[0][0] < before:
            self.ended.popleft()
        while self._arrived and self._arrived[0] < before:
            self._arrived.popleft()
        while self._batch and self._batch[0][0] < before:
            self._batch.popleft()
        while self._probes and self._probes[0][0] < before:
            self._probes.popleft()
