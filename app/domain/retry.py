"""When to try again: exponential, with full jitter, bounded."""

from __future__ import annotations

from dataclasses import dataclass

_OWN_MOST_S = 30.0
_ASKED_MOST_S = 3600.0
_SHORT_S = 1.0


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

    What it asked for wins, up to an hour. Asked for less than a second, or for nothing, it gets our
    own backoff if that is longer: `Retry-After: 0` at every refusal is no leave to hammer it.
    """
    own_s = min(_OWN_MOST_S, delay_s(max(refusals, 1), policy, jitter))
    if asked_s is None:
        return own_s
    if asked_s < _SHORT_S:
        return max(asked_s, own_s)
    return min(asked_s, _ASKED_MOST_S)
