"""Health of an endpoint: a breaker that all processes share, and peers to compare it with.

CLOSED ── failures_to_open counted failures in a row ──► OPEN
OPEN ── open_until is over, and a probe is taken ──► HALF_OPEN
HALF_OPEN ── the probe fails ──► OPEN, for twice as long
HALF_OPEN ── the probe succeeds ──► CLOSED, one request at a time until one is answered
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum


class Breaker(StrEnum):
    """CLOSED: it gets work. OPEN: it gets none. HALF_OPEN: it gets one probe at a time."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


FAULTS = frozenset({"connection", "timeout", "server_error", "bad_reply", "overloaded"})
"""Codes that speak against the endpoint. What the caller or the account did wrong is not among
them, nor is a rate limit: that is an endpoint which works and says when to come back."""


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """When an endpoint is left alone, and how it comes back; see `[health]`."""

    failures_to_open: int = 5
    open_s: float = 5.0
    open_max_s: float = 60.0
    probe_timeout_s: float = 10.0
    slow_factor: float = 2.5
    slow_window_s: float = 30.0


@dataclass(frozen=True, slots=True)
class BreakerState:
    """`failures` in a row that counted; `openings` since an ordinary request was last answered."""

    breaker: Breaker = Breaker.CLOSED
    failures: int = 0
    openings: int = 0
    open_until: datetime | None = None


def blames_endpoint(code: str, items: int, attempt: int) -> bool:
    """Whether an error on a call of `items` items, tried `attempt` times before, counts.

    A bad reply to items that another call has had a bad reply for may be the fault of one of them:
    it counts only once that item stands alone, so that one poisonous text opens no breaker.
    """
    if code not in FAULTS:
        return False
    return code != "bad_reply" or attempt == 0 or items == 1


def failed(state: BreakerState, policy: HealthPolicy, now: datetime) -> BreakerState:
    """After one more counted failure. One that comes late to an open breaker changes nothing."""
    if state.breaker is not Breaker.CLOSED:
        return state
    failures = state.failures + 1
    if failures < policy.failures_to_open:
        return replace(state, failures=failures)
    return _opened(replace(state, failures=failures), policy, now)


def probed(state: BreakerState, *, ok: bool, policy: HealthPolicy, now: datetime) -> BreakerState:
    """After a probe. `openings` stay until an ordinary request is answered, so that an endpoint
    which answers probes and nothing else waits longer each time."""
    if ok:
        return replace(state, breaker=Breaker.CLOSED, failures=0, open_until=None)
    return _opened(state, policy, now)


def open_for_s(openings: int, policy: HealthPolicy) -> float:
    """How long the breaker stays open at its `openings`-th opening in a row (1 is the first)."""
    return min(policy.open_max_s, policy.open_s * 2.0 ** min(openings - 1, 30))


def _opened(state: BreakerState, policy: HealthPolicy, now: datetime) -> BreakerState:
    openings = state.openings + 1
    until = now + timedelta(seconds=open_for_s(openings, policy))
    return replace(state, breaker=Breaker.OPEN, openings=openings, open_until=until)


_RECOVERED = 2 / 3
"""Of `slow_factor`: a slow endpoint is slow until it is this much better than what made it so."""


def is_slow(was_slow: bool, pace: float | None, policy: HealthPolicy) -> bool:
    """Whether an endpoint that takes `pace` times as long as its peers is slow.

    None: too few of its calls, or of theirs, are known. Then it is not: it is asked again, and a
    few calls tell.
    """
    if pace is None:
        return False
    return pace >= policy.slow_factor * (_RECOVERED if was_slow else 1.0)
