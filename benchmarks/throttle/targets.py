"""The target, from people alone in the same run."""

from __future__ import annotations

from dataclasses import dataclass

FACTOR = 1.75
"""Of the P95 of people alone."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Milliseconds. `whole_ms` is what a request is judged by, from due to answer.

    The other two are how it is told to Giveway, whose pools have a target for each part of a
    streamed answer: the same factor on the same percentile of each.
    """

    whole_ms: float
    first_token_ms: float
    per_token_ms: float
