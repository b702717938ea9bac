"""Merging: small embedding requests that come within milliseconds of each other share one call.

A request that nobody else is under way with goes at once. One that has company opens a *ride* and
waits a little for more; the ride departs when nobody has joined for `wait_s`, when it has waited
five times that, or when it is full.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app import errors
from app.domain.inference import EmbedReply, Usage, rough_tokens
from app.domain.routing import EndpointSpec, serving

_COMPANY = 3.0
"""Times `wait_s` for which somebody who came, or a call that was shared, promises more to come."""
_LONGEST = 5.0
"""Times `wait_s` that a ride waits at most."""
_SMALL = 4
"""A request is small if that many of its size fit into a call."""


@dataclass(frozen=True, slots=True)
class MergeRule:
    """How long to wait for company, in seconds (0: nothing is merged), and what a call holds."""

    wait_s: float = 0.008
    most_texts: int = 64
    most_tokens: int = 16_384


def bounded(rule: MergeRule, model: str, specs: Sequence[EndpointSpec]) -> MergeRule:
    """`rule` within what every endpoint of `model` takes in one call."""
    served = [spec.takes(model) for spec in serving(model, specs)]
    texts = [takes.items for takes in served if takes.items is not None]
    tokens = [takes.tokens for takes in served if takes.tokens is not None]
    return replace(
        rule,
        most_texts=min([rule.most_texts, *texts]),
        most_tokens=min([rule.most_tokens, *tokens]),
    )


def is_small(texts: Sequence[str], rule: MergeRule) -> bool:
    """Whether a request of `texts` is one that others may share a call with."""
    if rule.wait_s <= 0 or len(texts) * _SMALL > rule.most_texts:
        return False
    return size_of(texts) * _SMALL <= rule.most_tokens


def size_of(texts: Sequence[str]) -> int:
    """Rough tokens of `texts`."""
    return sum(map(rough_tokens, texts))


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is going on as a request comes: how many others are under way, when the last of them
    came, and when several last came back from a call that they shared (monotonic seconds)."""

    under_way: int = 0
    last_came_s: float = -math.inf
    last_shared_s: float = -math.inf


def has_company(traffic: Traffic, now_s: float, rule: MergeRule) -> bool:
    """Whether others make waiting worth it. One who asks again and again is no company."""
    recent_s = now_s - _COMPANY * rule.wait_s
    return traffic.last_shared_s >= recent_s or (
        traffic.under_way > 0 and traffic.last_came_s >= recent_s
    )


def departs_at_s(opened_s: float, last_joined_s: float, rule: MergeRule) -> float:
    """When a ride that is not full departs."""
    return min(opened_s + _LONGEST * rule.wait_s, last_joined_s + rule.wait_s)


def splits(error: errors.EndpointError, requests: int) -> bool:
    """Whether the requests of a call that ended in `error` are sent once more, each on its own.

    One text that a server refuses, or makes nonsense of, is the fault of nobody else.
    """
    of_one_text = (
        errors.BadRequest,
        errors.TooLong,
        errors.ContentRefused,
        errors.BadReply,
    )
    return requests > 1 and isinstance(error, of_one_text)


def shared_out(reply: EmbedReply, texts: Sequence[Sequence[str]]) -> list[EmbedReply]:
    """The part of `reply` that belongs to each request, given the texts of each in order.

    The tokens are shared by size; the shares sum up to the call's.
    """
    parts, begin = [], 0
    tokens = shares(reply.usage.prompt_tokens, [size_of(one) for one in texts])
    for one, count in zip(texts, tokens, strict=True):
        end = begin + len(one)
        usage = Usage(count, 0, rough=True)
        parts.append(EmbedReply(reply.vectors[begin:end], usage, reply.model))
        begin = end
    return parts


def shares(total: int, weights: Sequence[int]) -> list[int]:
    """`total` shared out by `weights` (each above 0), in whole numbers that sum up to it."""
    whole, done, given = sum(weights), 0, 0
    out = []
    for weight in weights:
        done += weight
        upto = total * done // whole
        out.append(upto - given)
        given = upto
    return out
