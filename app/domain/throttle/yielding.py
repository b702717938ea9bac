"""Taking places back: how many over-limit batch calls to close now, and which.

Cooperative by default: over the limit nothing new starts, and places come back as calls end. Calls
are closed only when that is too slow, and within a budget of thrown-away work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Held:
    """One batch call in flight."""

    key: str
    """The caller's name for it (a chunk)."""
    age_s: float
    work_tokens: float
    """What closing it would throw away: tokens read and given so far."""
    may_yield: bool = True


@dataclass(frozen=True, slots=True)
class YieldSettings:
    """When people's wait is worth thrown-away batch work."""

    waited_s: float = 0.25
    """An interactive request that has waited so long for the engine may take places back."""
    drain_s: float = 1.5
    """Over-limit calls that need longer than this to drain are asked to yield as well. Simulated on
    spikes: 5 s, 60 % of people on target; 3 s, 66 %; 1.5 s, 67 %; 0.7 s, the same, less work."""
    waste_share: float = 0.05
    """At most this share of batch work may be thrown away, over the time the caller counts."""


def victims(
    held: Sequence[Held],
    limit: int,
    settings: YieldSettings,
    *,
    oldest_waiting_s: float,
    drain_s: float,
    work_tokens: float,
    wasted_tokens: float,
) -> list[Held]:
    """The calls to close now, the newest first; none when draining is quick and nobody waits.

    `drain_s` is how long the calls over the limit would take to end by themselves (about the mean
    round trip times their share of all that are held); `work_tokens` and `wasted_tokens` are what
    batch did and threw away lately.
    """
    over = len(held) - limit
    if over <= 0 or (oldest_waiting_s <= settings.waited_s and drain_s <= settings.drain_s):
        return []
    budget = settings.waste_share * work_tokens - wasted_tokens
    chosen: list[Held] = []
    for call in sorted(held, key=lambda c: (c.age_s, c.key)):
        if len(chosen) == over:
            break
        if not call.may_yield or call.work_tokens > budget:
            continue
        budget -= call.work_tokens
        chosen.append(call)
    return chosen
