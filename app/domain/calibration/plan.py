"""What a calibration will do, and how long that may take."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from app.errors import UsageError

PROMPT_WORDS = (16, 96, 256, 512, 768)
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_SHARES = (0.3, 0.6, 0.75, 0.85, 0.95)
_BEYOND = 1.15
"""Past the estimated capacity each rate is so many times the one before."""
_MOST_STEPS = 12


@dataclass(frozen=True, slots=True)
class Plan:
    """How hard and how long one endpoint is measured."""

    max_tokens: int = 48
    prompt_words: int = 64
    seconds_per_step: float = 7.0
    max_rps: float | None = None
    target_p95_ms: float | None = None
    """None: 1.75 times the P95 of calls that are alone."""
    idle_calls: int = 10
    repeats: int = 4
    """Calls for each length of prompt and each size of batch."""

    def __post_init__(self) -> None:
        if self.max_tokens < 2:
            raise UsageError("max_tokens must be 2 or more: time per token needs two")
        if self.seconds_per_step < 0.5:
            raise UsageError("seconds_per_step must be 0.5 or more")

    @property
    def level_s(self) -> float:
        """How long each number in flight is held."""
        return min(2.5, self.seconds_per_step)

    def target_ms(self, idle_p95_ms: float) -> float:
        """The target of this run. UsageError: not even a call that is alone keeps it."""
        if self.target_p95_ms is None:
            return 1.75 * idle_p95_ms
        if self.target_p95_ms <= idle_p95_ms:
            raise UsageError(
                f"a call that is alone takes {idle_p95_ms:.0f} ms at P95, so the target of "
                f"{self.target_p95_ms:.0f} ms can never be kept; give a larger --target-p95-ms, or "
                f"a smaller --max-tokens than {self.max_tokens}"
            )
        return self.target_p95_ms

    def levels(self, max_concurrency: int) -> list[int]:
        """Numbers in flight to measure: 1, 2, 4, … and the endpoint's most."""
        doubling = [1 << power for power in range(max_concurrency.bit_length())]
        return sorted({*doubling, max_concurrency})

    def rates(self, capacity_rps: float) -> list[float]:
        """Rates to try, rising; the ramp ends at the first that leaves the target."""
        beyond = itertools.accumulate(itertools.repeat(_BEYOND), lambda a, b: a * b)
        shares = [*_SHARES, *itertools.islice(beyond, _MOST_STEPS - len(_SHARES))]
        rates = [share * capacity_rps for share in shares]
        if self.max_rps is None or self.max_rps >= rates[-1]:
            return rates
        return [*(rate for rate in rates if rate < self.max_rps), self.max_rps]

    def expected_s(self, call_s: float, max_concurrency: int, *, embeds: bool) -> float:
        """How long all of it may take where one call that is alone takes `call_s`."""
        levels = len(self.levels(max_concurrency)) * (self.level_s + call_s)
        ramp = (len(_SHARES) + 2) * (self.seconds_per_step + 1.75 * call_s)  # One is repeated.
        prompts = len(PROMPT_WORDS) * self.repeats * 0.25 * call_s
        sizes = len(BATCH_SIZES) * self.repeats * 0.15 * call_s if embeds else 0.0
        return math.ceil(self.idle_calls * call_s + levels + prompts + sizes + ramp)
