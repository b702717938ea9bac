"""The target, from people alone in the same run."""

from __future__ import annotations

from dataclasses import dataclass

FACTOR = 1.75
"""Of the P95 of people alone."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Milliseconds. `whole_ms` is what a request is judged by, from due to answer.

    The other two are for Giveway, which has a target for each part of a streamed answer besides:
    the first token may take what the factor adds to the whole, and each token the factor on its
    own P95.
    """

    whole_ms: float
    first_token_ms: float
    per_token_ms: float
