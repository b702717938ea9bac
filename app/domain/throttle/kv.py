"""KV memory: what the requests of each class hold of it, and how many batch requests it bears."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from app.domain.throttle.readings import Reading

USABLE = 0.92
"""Share of the memory that is planned with."""
SPARE = 0.10
"""Share kept free at least for people who have not come yet."""
SIZE_ALPHA = 0.2
"""How far one reading moves what a request is known to hold."""
FILL_UP, FILL_DOWN = 0.1, 0.02
"""How far one reading moves `Kv.fill`. Young requests hold little: down only slowly."""
FILL_LEAST, FILL_MOST = 0.1, 4.0
FILL_FROM = 0.05
"""Requests that should hold less than this share of the memory tell nothing about `Kv.fill`."""
FULL = 0.80
"""Past this use requests may wait for memory, and hold less than they would: `fill` stays."""


@dataclass(frozen=True, slots=True)
class Kv:
    """A pool's KV memory and what a request in flight holds of it, in tokens; None: unknown."""

    capacity_tokens: float | None = None
    """Of all endpoints together; None also when the gauges are old."""
    per_person_tokens: float | None = None
    """None: as much as a batch request."""
    per_batch_tokens: float | None = None
    fill: float = 1.0
    """What is in use, as a share of what the requests in flight should hold. Under 1 where prompts
    begin alike and are held once; over 1 where endpoints are loaded unevenly, or somebody else's
    requests hold memory too."""

    def limit(self, in_flight: float, most: float) -> float:
        """Batch requests that fit beside `in_flight` people, who may soon be `most`; infinite where
        something is unknown, or a batch request holds less than a token."""
        if self.capacity_tokens is None or (self.per_batch_tokens or 0.0) < 1.0:
            return math.inf
        batch = self.fill * (self.per_batch_tokens or 0.0)
        person = batch
        if self.per_person_tokens is not None:
            person = self.fill * self.per_person_tokens
        spare = max(SPARE * self.capacity_tokens, max(0.0, most - in_flight) * person)
        room = USABLE * self.capacity_tokens - in_flight * person - spare
        return max(0.0, room / batch)

    @property
    def words(self) -> str:
        """`140,000 tokens, of which a batch request in flight takes 1,150 and a person 350`."""
        each = [
            f"{who} {self.fill * tokens:,.0f}"
            for who, tokens in (
                ("a batch request in flight takes", self.per_batch_tokens),
                ("a person", self.per_person_tokens),
            )
            if tokens is not None
        ]
        size = "unknown" if self.capacity_tokens is None else f"{self.capacity_tokens:,.0f} tokens"
        return f"{size}, of which {' and '.join(each)}"


def held_tokens(prompt: int | None, output: int | None) -> float:
    """What one request holds on average, from its first token to its last: the prompt, and half of
    what it gives.

    Nothing where it gives no tokens: an embedding holds memory in the step that reads it, is read
    only when there is room, does not grow, and so pushes nobody out.
    """
    return (prompt or 0) + output / 2 if output else 0.0


def mean_held(calls: Iterable[tuple[float, int | None, int | None]]) -> float | None:
    """What a request in flight holds: the mean over (time in flight, prompt, output) of requests
    that ended, each weighing its time, since whoever stays longer is met more often. None: no time.
    """
    known = [(time, time * held_tokens(prompt, output)) for time, prompt, output in calls]
    total = sum(time for time, _ in known)
    return sum(held for _, held in known) / total if total > 0 else None


def next_kv(before: Kv | None, reading: Reading, gauges_stale_s: float) -> Kv | None:
    """What is known of the memory one reading later; None: no request of either class has ended
    whose tokens are known."""
    before = before or Kv()
    batch = _moved(before.per_batch_tokens, reading.batch_kv_tokens)
    person = _moved(before.per_person_tokens, reading.people_kv_tokens)
    if batch is None and person is None:
        return None
    gauges = reading.gauges
    if gauges is None or gauges.age_s > gauges_stale_s or not gauges.kv_capacity_tokens:
        return Kv(None, person, batch, before.fill)
    capacity = float(gauges.kv_capacity_tokens)
    due = reading.batch_in_flight * (batch or 0.0)
    due += reading.interactive_in_flight * ((batch or 0.0) if person is None else person)
    fill = before.fill
    if gauges.kv_usage is not None and due >= FILL_FROM * capacity:
        seen = min(FILL_MOST, max(FILL_LEAST, gauges.kv_usage * capacity / due))
        if seen > fill:
            fill += FILL_UP * (seen - fill)
        elif gauges.kv_usage <= FULL:
            fill += FILL_DOWN * (seen - fill)
    return Kv(capacity, person, batch, fill)


def _moved(before: float | None, seen: float | None) -> float | None:
    if seen is None or before is None:
        return before if seen is None else seen
    return before + SIZE_ALPHA * (seen - before)
