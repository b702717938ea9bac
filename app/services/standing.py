"""What a failed request does to the standing of its endpoint, for all processes at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import orjson
from sqlalchemy import Connection

from app import errors
from app.domain.events import EndpointOpened, columns_of, facts_of, type_of
from app.domain.health import FAULTS, Breaker, HealthPolicy, blames_endpoint, failed
from app.domain.retry import RetryPolicy, cool_down_s
from app.storage.endpoint_store import EndpointStore
from app.storage.event_store import EventStore, Record

_REFUSALS = (errors.RateLimited, errors.Overloaded, errors.ConnectionFailed)
_USELESS = (errors.AuthFailed, errors.QuotaExhausted)
_USELESS_S = 60.0
_HASTY_S = 2.0
SPEAKING = FAULTS | {"rate_limited", "quota_exhausted", "auth", "model_missing"}
"""Codes that say something of the endpoint, not only of the request."""


@dataclass(frozen=True, slots=True)
class Rules:
    """By what an endpoint is judged. `jitter` gives a number in [0, 1)."""

    retry: RetryPolicy
    health: HealthPolicy
    jitter: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`cool_s`: for how long it is left alone, 0: it is not. `is_open`: its breaker is open."""

    cool_s: float
    is_open: bool


def judged(
    tx: Connection,
    endpoint: str,
    error: errors.EndpointError,
    rules: Rules,
    *,
    task: str,
    model: str,
    items: int = 1,
    attempt: int = 0,
    elsewhere: bool = False,
    after_s: float = math.inf,
) -> Verdict:
    """Record that a request of `items` items, tried `attempt` times before, ended with `error`.

    `task` is chat or embed. A refusal (rate limit, overload, no connection) cools the endpoint down
    for as long as it asks; refusals that come while it cools down already belong to the same wave
    and are not counted again. `elsewhere`: others can do its work, so one that wants another key or
    more money is left alone for a minute as well. `after_s`: how long the request took; running out
    of a time that was short from the start says nothing against it. What the request itself caused
    is not recorded. Two statements.
    """
    if error.code not in SPEAKING:
        return Verdict(0.0, is_open=False)
    store = EndpointStore(tx)
    row = store.lock(endpoint)
    if row is None:
        return Verdict(0.0, is_open=True)
    refusals, cool_s = row.refusals, 0.0
    refused, useless = isinstance(error, _REFUSALS), elsewhere and isinstance(error, _USELESS)
    if (refused or useless) and not (row.cooling and refusals):
        refusals += 1
    if refused:
        cool_s = cool_down_s(refusals, error.retry_after_s, rules.retry, rules.jitter())
    elif useless:
        cool_s = _USELESS_S
    hasty = isinstance(error, errors.EndpointTimeout) and after_s < _HASTY_S
    doubtful = isinstance(error, errors.BadReply) and error.doubtful
    counts = blames_endpoint(error.code, items, attempt) and not (hasty or doubtful)
    breaker = failed(row.breaker, rules.health, row.now) if counts else row.breaker
    # An open breaker stays about the request that opened it: with such a one it is probed.
    told = (task, model) if counts and row.breaker.breaker is Breaker.CLOSED else None
    store.suffered(endpoint, error.code, breaker, refusals, cool_s, told)
    is_open = breaker.breaker is not Breaker.CLOSED
    if is_open and row.breaker.breaker is Breaker.CLOSED:
        EventStore(tx).append([_recorded(EndpointOpened(row.pool, endpoint, error.code))])
    return Verdict(cool_s, is_open)


def _recorded(event: EndpointOpened) -> Record:
    facts = orjson.dumps(facts_of(event))
    return Record(0.0, type_of(event), **columns_of(event), facts=facts)
