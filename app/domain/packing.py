"""Cutting a chunk into micro-batches by count and by tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def packed(
    items: Sequence[T], tokens: Sequence[int], max_items: int, max_tokens: int
) -> Iterator[Sequence[T]]:
    """Runs of `items`, in order, each at most `max_items` long and `max_tokens` heavy.

    An item heavier than `max_tokens` stands alone: the endpoint decides, not we.
    """
    start, weight = 0, 0
    for position, cost in enumerate(tokens):
        full = position - start >= max_items or (weight + cost > max_tokens and position > start)
        if full:
            yield items[start:position]
            start, weight = position, 0
        weight += cost
    if start < len(items):
        yield items[start:]
