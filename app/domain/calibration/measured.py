"""What was measured: calls with their times, and the figures of each stage made of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.domain.throttle.samples import Sample, nearest_rank


@dataclass(frozen=True, slots=True)
class TimedCall:
    """One streamed call. Times are seconds on one clock; no tokens and no `ended_s`: it failed."""

    sent_s: float
    token_at_s: tuple[float, ...] = ()
    """When each piece of the answer came; most servers send one token a piece."""
    ended_s: float | None = None
    prompt_tokens: int = 0
    output_tokens: int = 0
    ahead: int = 0
    """Other calls of the same load in flight when this one was sent."""
    error: str | None = None
    """The code of its EndpointError; `abandoned` where we gave it up ourselves."""
    why: str = ""
    """What the error says."""

    @property
    def total_ms(self) -> float | None:
        return None if self.ended_s is None else (self.ended_s - self.sent_s) * 1000

    @property
    def first_token_ms(self) -> float | None:
        return (self.token_at_s[0] - self.sent_s) * 1000 if self.token_at_s else None

    @property
    def per_token_ms(self) -> float | None:
        """None: it has fewer than two tokens."""
        if self.ended_s is None or self.output_tokens < 2 or len(self.token_at_s) < 2:
            return None
        return (self.token_at_s[-1] - self.token_at_s[0]) * 1000 / (self.output_tokens - 1)

    @property
    def tokens_a_piece(self) -> float:
        return self.output_tokens / len(self.token_at_s) if self.token_at_s else 0.0

    def sample(self) -> Sample | None:
        """The call as the throttle would see it; None: it failed."""
        if self.total_ms is None:
            return None
        return Sample(
            age_ms=self.total_ms,
            first_token_ms=self.first_token_ms,
            output_tokens=self.output_tokens,
            finished=True,
            ahead=self.ahead,
        )


@dataclass(frozen=True, slots=True)
class Idle:
    """Calls one after the other: what a request takes when it is alone. Milliseconds."""

    calls: int
    p50_ms: float
    p95_ms: float
    first_token_p95_ms: float
    per_token_p95_ms: float
    output_tokens: float
    """Mean per call."""


@dataclass(frozen=True, slots=True)
class Level:
    """So many calls kept in flight: what a step of the engine took."""

    running: int
    tokens_per_s: float
    step_ms: float
    """From one token of a call to its next, on average, the steps that read prompts among them."""
    prompt_tokens_per_step: float


@dataclass(frozen=True, slots=True)
class PromptPoint:
    """One call at a time with a prompt of this length: the median time to the first token."""

    prompt_tokens: float
    first_token_ms: float


@dataclass(frozen=True, slots=True)
class RateStep:
    """Calls sent at random at this rate (Poisson), whether or not the ones before were done."""

    rps: float
    calls: tuple[TimedCall, ...]
    gave_up: bool = False
    """It was ended early, because calls piled up or failed."""

    def merged(self, other: RateStep) -> RateStep:
        """Both as one step: the same rate, measured for longer."""
        return RateStep(self.rps, self.calls + other.calls, self.gave_up or other.gave_up)

    @property
    def errors(self) -> int:
        return sum(call.error not in (None, "abandoned") for call in self.calls)

    @property
    def most_in_flight(self) -> int:
        return max((call.ahead + 1 for call in self.calls), default=0)

    def quantile_ms(self, share: float) -> float | None:
        """Of the whole time; None: no call was answered."""
        return nearest_rank(sorted(known(call.total_ms for call in self.calls)), share)

    @property
    def p95_ms(self) -> float | None:
        return self.quantile_ms(0.95)

    @property
    def first_token_p95_ms(self) -> float | None:
        return nearest_rank(sorted(known(call.first_token_ms for call in self.calls)), 0.95)

    @property
    def per_token_p95_ms(self) -> float | None:
        return nearest_rank(sorted(known(call.per_token_ms for call in self.calls)), 0.95)

    def keeps(self, target_ms: float) -> bool:
        """Whether the P95 is at most `target_ms`, nothing failed and nothing piled up."""
        p95_ms = self.p95_ms
        return p95_ms is not None and p95_ms <= target_ms and not self.errors and not self.gave_up


@dataclass(frozen=True, slots=True)
class BatchSize:
    """Embedding calls with so many texts, one at a time: the median call."""

    items: int
    tokens: int
    call_ms: float

    @property
    def items_per_s(self) -> float:
        return 1000 * self.items / self.call_ms


@dataclass(frozen=True, slots=True)
class Measured:
    """All stages. `sizes` is empty where no embedding model was measured."""

    idle: Idle
    levels: tuple[Level, ...]
    prompts: tuple[PromptPoint, ...]
    steps: tuple[RateStep, ...]
    sizes: tuple[BatchSize, ...] = ()
    target_p95_ms: float = 0.0
    """The target that ended the ramp: the one given, or one made of `idle`."""


def idle_of(calls: Sequence[TimedCall]) -> Idle:
    """The figures of calls that were alone. At least one must have been answered with a token."""
    whole = sorted(known(call.total_ms for call in calls))
    first = sorted(known(call.first_token_ms for call in calls))
    each = sorted(known(call.per_token_ms for call in calls))
    answered = [call.output_tokens for call in calls if call.ended_s is not None]
    return Idle(
        calls=len(answered),
        p50_ms=nearest_rank(whole, 0.50) or 0.0,
        p95_ms=nearest_rank(whole, 0.95) or 0.0,
        first_token_p95_ms=nearest_rank(first, 0.95) or 0.0,
        per_token_p95_ms=nearest_rank(each, 0.95) or 0.0,
        output_tokens=statistics.fmean(answered),
    )


def level_of(
    running: int, calls: Sequence[TimedCall], from_s: float, until_s: float
) -> Level | None:
    """The figures of the time in which `running` calls were kept in flight; None: no tokens came.

    With that many always running, each step gives that many tokens: so their number tells the
    number of steps, and no step need be seen.
    """
    tokens = prompt_tokens = 0.0
    for call in calls:
        inside = sum(from_s <= at_s < until_s for at_s in call.token_at_s)
        tokens += inside * call.tokens_a_piece
        if call.token_at_s and from_s <= call.token_at_s[0] < until_s:
            prompt_tokens += call.prompt_tokens
    if not tokens:
        return None
    steps = tokens / running
    seconds = until_s - from_s
    return Level(running, tokens / seconds, seconds * 1000 / steps, prompt_tokens / steps)


def known(values: Iterable[float | None]) -> list[float]:
    """Those that are not None."""
    return [value for value in values if value is not None]
