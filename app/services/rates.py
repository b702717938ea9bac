"""Rate budgets: a call's requests and tokens are reserved before it and settled after it.

One log an endpoint, in Postgres, for all processes. What follows from a budget without room is for
the caller: it gets BudgetSpent, and nobody waits here.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from app import errors
from app.domain.inference import ChatRequest, EmbedRequest, Usage
from app.domain.rates import (
    WINDOW_S,
    Budget,
    Cost,
    budget_of,
    can_never_fit,
    fits,
    most,
    wait_s,
)
from app.domain.routing import EndpointHealth, EndpointSpec
from app.inference.tokens import Counters
from app.services.pools import Pool
from app.storage.database import Database
from app.storage.rate_store import RateStore

log = logging.getLogger(__name__)

_ROUGH_MARGIN = 1.25
"""A guess may be low; what it is too high by is given back when the call is settled."""
_MESSAGE_TOKENS = 4
"""Roughly what a chat template puts around a message."""
_ANSWER_TOKENS = 1024
"""Reserved for an answer whose length the request does not bound."""
_LATE_S = 5.0
"""How much later than its deadline a call may be over."""
_LEAST_WAIT_S = 1.0
"""Batch does not come back sooner: what is freed meanwhile is used together."""
_PERSON_PATIENCE_S = 0.3


@dataclass(slots=True)
class Hold:
    """A reservation while its call runs."""

    cost: Cost

    def used(self, usage: Usage) -> None:
        """The call came to this; without it, or where the server said nothing, the estimate
        stays: an endpoint may count what it did not answer."""
        if not usage.rough:
            self.cost = replace(self.cost, tokens=usage.total_tokens)


class Rates:
    """Reserves and settles. Batch waits up to `patience_s` for a database that is away. `window_s`
    is a minute; tests take less."""

    def __init__(
        self,
        database: Database,
        counters: Counters,
        patience_s: float,
        window_s: float = WINDOW_S,
    ) -> None:
        self._database = database
        self.counters = counters
        self._patience_s = patience_s
        self._window_s = window_s

    @contextmanager
    def held(
        self,
        spec: EndpointSpec,
        request: ChatRequest | EmbedRequest,
        *,
        deadline_s: float,
        interactive: bool,
    ) -> Iterator[Hold]:
        """Make the call in this block: its share of the budget is held until it is over.

        Raises BudgetSpent where there is no room now (with `retry_after_s`), and where there never
        will be TooLong, for a person BudgetSpent without it. An endpoint without a budget costs
        nothing here.
        """
        budget = budget_of(spec)
        if not budget.is_limited:
            yield Hold(Cost())
            return
        hold = Hold(self._cost(spec, budget, request, interactive=interactive))
        number = self._reserved(
            spec, budget, hold.cost, deadline_s, interactive=interactive, has_time=not interactive
        )
        try:
            yield hold
        finally:
            if number is not None:
                self._settle(number, hold.cost)

    @contextmanager
    def beside(
        self, spec: EndpointSpec, cost: Cost, *, deadline_s: float, interactive: bool
    ) -> Iterator[None]:
        """Ask the endpoint something that is no call of a job or a person: it counts like one.

        BudgetSpent where there is no room now; what is more than the whole budget takes all of it.
        `interactive`: what people are kept may be used.
        """
        budget = budget_of(spec)
        if cost.tokens == 0:
            budget = replace(budget, tokens=None)
        if not budget.is_limited:
            yield
            return
        cost = most(budget, cost)
        number = self._reserved(
            spec, budget, cost, deadline_s, interactive=interactive, has_time=False
        )
        try:
            yield
        finally:
            if number is not None:
                self._settle(number, cost)

    def _cost(
        self,
        spec: EndpointSpec,
        budget: Budget,
        request: ChatRequest | EmbedRequest,
        *,
        interactive: bool,
    ) -> Cost:
        """The most that the call should come to.

        TooLong where that is more than the whole budget; for a person BudgetSpent, since another
        endpoint may take it.
        """
        if budget.tokens is None:
            return Cost()
        if isinstance(request, EmbedRequest):
            texts, extra = request.texts, 0
        else:
            texts = tuple(message.content for message in request.messages)
            extra = request.max_tokens or _ANSWER_TOKENS
            extra += _MESSAGE_TOKENS * len(texts)
        counted = self.counters.of(spec, request.model).count(texts)
        least = Cost(counted.total + extra)
        if can_never_fit(budget, least):
            leaf = errors.BudgetSpent if interactive else errors.TooLong
            raise leaf(
                f"the request's {least.tokens:,} tokens are more than the {budget.tokens:,} a "
                f"minute that endpoint {spec.name!r} may be asked"
            )
        margin = _ROUGH_MARGIN if counted.is_rough else 1.0
        return Cost(min(budget.tokens, math.ceil(counted.total * margin) + extra))

    def _reserved(
        self,
        spec: EndpointSpec,
        budget: Budget,
        cost: Cost,
        deadline_s: float,
        *,
        interactive: bool,
        has_time: bool,
    ) -> int | None:
        """The reservation's number; None: there is no database, and a person is served without.

        `has_time`: it is for a chunk, which waits for the database, and for room.
        """

        def reserve(tx: Connection) -> int | float:
            """The number, or how long there is no room, in seconds."""
            store = RateStore(tx)
            store.lock(spec.name)
            standing = store.standing(spec.name, self._window_s)
            store.tidy(spec.name, self._window_s, fold=standing.is_long)
            used = standing.used
            if fits(budget, used, cost, interactive=interactive):
                return store.reserve(spec.name, cost, deadline_s + _LATE_S, interactive=interactive)
            entries = store.log(spec.name, self._window_s)
            after_s = wait_s(entries, budget, used, cost, interactive=interactive)
            if has_time:
                after_s = max(after_s, _LEAST_WAIT_S)
                store.rest(spec.name, after_s)
            return float(after_s)

        try:
            patience_s = self._patience_s if has_time else _PERSON_PATIENCE_S
            found = self._database.patiently(reserve, patience_s)
        except errors.DatabaseUnavailable:
            if not interactive:
                raise
            log.warning("no database: a call goes to %s past its rate budget", spec.name)
            return None
        if isinstance(found, int):
            return found
        raise errors.BudgetSpent(
            f"the rate budget of endpoint {spec.name!r} has no room for {cost.tokens:,} tokens "
            f"for another {found:.1f} s",
            found,
        )

    def _settle(self, number: int, cost: Cost) -> None:
        # Unsettled, it counts for longer and for the estimate: never too little.
        with suppress(errors.DatabaseUnavailable):
            self._database.patiently(
                lambda tx: RateStore(tx).settle(number, cost), _PERSON_PATIENCE_S
            )


def with_budget_left(tx: Connection, pool: Pool) -> Pool:
    """`pool` as batch sees it: an endpoint whose budget has nothing left for batch is cooling."""
    return at_rest(pool, budgets_spent(tx, pool))


def budgets_spent(tx: Connection, pool: Pool) -> Set[str]:
    """Endpoints of the pool whose budget has nothing left for batch now.

    Asks the database only where some endpoint has a budget.
    """
    if not any(budget_of(spec).is_limited for spec in pool.endpoints):
        return frozenset()
    return RateStore(tx).resting(pool.name)


def at_rest(pool: Pool, resting: Set[str]) -> Pool:
    """`pool` where those endpoints are cooling."""
    if not resting:
        return pool
    cooling = {
        name: replace(pool.health.get(name, EndpointHealth()), cooling=True) for name in resting
    }
    return replace(pool, health={**pool.health, **cooling})
