"""When to try again: exponential, with full jitter, bounded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`max_attempts` counts the first one; delays are in seconds."""

    max_attempts: int = 5
    base_s: float = 1.0
    max_s: float = 300.0


def delay_s(attempt: int, policy: RetryPolicy, jitter: float) -> float:
    """Seconds to wait after the `attempt`-th attempt (1 is the first). `jitter` is in [0, 1).

    Between half and all of base·2^(attempt−1), never more than `max_s`: spread enough that
    chunks which failed together do not come back together, never at once.
    """
    ceiling = min(policy.max_s, policy.base_s * 2.0 ** min(attempt - 1, 30))
    return ceiling * (0.5 + 0.5 * jitter)


def may_retry(attempt: int, policy: RetryPolicy) -> bool:
    """Whether another attempt is left after the `attempt`-th."""
    return attempt < policy.max_attempts


def cool_down_s(refusals: int, asked_s: float | None, policy: RetryPolicy, jitter: float) -> float:
    """Seconds for which an endpoint that refused `refusals` times in a row is left alone.

    What it asked for wins; both are bounded by `max_s`.
    """
    if asked_s is not None:
        return min(max(asked_s, 0.1), max(policy.max_s, 3600.0))
    return min(30.0, delay_s(max(refusals, 1), policy, jitter))
