"""Rate budgets: whether an endpoint's requests and tokens a minute leave room for one more call.

What is spent is a log of reservations. One counts from before its call until a window after the
call was over, since the endpoint may have counted it at any moment in between: so what the
endpoint counts in any window of its own is never more than what was in the log at some moment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.routing import EndpointSpec

WINDOW_S = 60.0
KEPT_SHARE = 0.1
"""Of every budget so much is people's, whether they come or not."""
GROWTH = 1.1
"""People are kept so many times what they used in the last window or the one before it."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one call or of many."""

    tokens: int = 0
    requests: int = 1

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.tokens + other.tokens, self.requests + other.requests)


NOTHING = Cost(0, 0)


@dataclass(frozen=True, slots=True)
class Budget:
    """What an endpoint may be asked in any window; None: as much as you like."""

    requests: int | None = None
    tokens: int | None = None

    @property
    def is_limited(self) -> bool:
        """Whether there is anything to reserve."""
        return self.requests is not None or self.tokens is not None


@dataclass(frozen=True, slots=True)
class Used:
    """What is in the log: this window's by batch and by people, and people's in the one before."""

    batch: Cost = NOTHING
    people: Cost = NOTHING
    people_before: Cost = NOTHING


@dataclass(frozen=True, slots=True)
class Reserved:
    """One entry of the log, as a refused call looks at it. `free_in_s`: when it counts no more, if
    its call is over now."""

    free_in_s: float
    cost: Cost
    interactive: bool


def budget_of(spec: EndpointSpec) -> Budget:
    """The budget that an endpoint declares."""
    return Budget(spec.requests_per_minute, spec.tokens_per_minute)


def fits(budget: Budget, used: Used, cost: Cost, *, interactive: bool) -> bool:
    """Whether a call may go now. People may use all; batch leaves them what they are kept."""
    return _room(
        budget.requests,
        used.batch.requests,
        used.people.requests,
        used.people_before.requests,
        cost.requests,
        interactive=interactive,
    ) and _room(
        budget.tokens,
        used.batch.tokens,
        used.people.tokens,
        used.people_before.tokens,
        cost.tokens,
        interactive=interactive,
    )


def _room(
    limit: int | None, batch: int, people: int, before: int, cost: int, *, interactive: bool
) -> bool:
    if limit is None:
        return True
    if batch + people + cost > limit:
        return False
    if interactive or batch + cost <= limit - kept(limit, people, before):
        return True
    # What is larger than batch's share goes when nobody has used anything.
    return batch == people == before == 0


def kept(limit: int, people: int, before: int) -> int:
    """How much of `limit` batch leaves to people, what they use now included."""
    wanted = math.ceil(GROWTH * max(people, before))
    return min(limit, max(math.floor(KEPT_SHARE * limit), wanted))


def can_never_fit(budget: Budget, cost: Cost) -> bool:
    """Whether the call alone is more than the whole budget."""
    return not fits(budget, Used(), cost, interactive=True)


def most(budget: Budget, cost: Cost) -> Cost:
    """`cost`, or the whole budget where that is less."""
    return Cost(
        cost.tokens if budget.tokens is None else min(cost.tokens, budget.tokens),
        cost.requests if budget.requests is None else min(cost.requests, budget.requests),
    )


def wait_s(
    log: Sequence[Reserved], budget: Budget, used: Used, cost: Cost, *, interactive: bool
) -> float:
    """Seconds until a call that does not fit now may fit, if nobody else comes.

    `log` holds the entries of this window. What people are kept is taken as it is now.
    """
    left = used
    for entry in sorted(log, key=lambda one: one.free_in_s):
        minus = Cost(-entry.cost.tokens, -entry.cost.requests)
        left = Used(
            left.batch if entry.interactive else left.batch + minus,
            left.people + minus if entry.interactive else left.people,
            left.people_before,
        )
        if fits(budget, left, cost, interactive=interactive):
            return max(0.0, entry.free_in_s)
    return WINDOW_S


def most_tokens_a_call(budget: Budget, most: int) -> int:
    """How many tokens a micro-batch may hold so that a budget is not spent in one go.

    A quarter of the minute's tokens, or more where few requests a minute must carry them.
    """
    if budget.tokens is None:
        return most
    share = budget.tokens // 4
    if budget.requests is not None:
        share = max(share, budget.tokens // budget.requests)
    return max(1, min(most, share, math.floor((1 - KEPT_SHARE) * budget.tokens)))
