"""Interactive load as values: who comes when, what they ask, and the figures of what they waited.

Open loop: arrivals are fixed beforehand and nobody waits for an answer before the next one comes,
so a slow server meets the same people as a fast one. A wait is counted from the moment at which the
request was *due*, so that a late sender hides nothing (no coordinated omission).
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from app.domain.throttle.samples import nearest_rank
from app.errors import ConfigError

_TEXT = """
    queue latency batch people index shard cache vector token prompt answer model endpoint lease
    chunk retry limit window reading pressure policy worker broker schedule invoice order refund
    parcel garden river bridge winter harvest engine pilot letter museum theatre violin recipe
"""
_WORDS = tuple(_TEXT.split())


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """`rps` requests a second on average for `seconds`. Everything random comes from `seed`.

    `poisson`: people come independently of each other; else at even distances. `timeout_s` is how
    long one waits before they leave. `max_tokens` and `prompt_words` are of each request.
    """

    model: str
    rps: float
    seconds: float
    kind: Literal["chat", "embed"] = "chat"
    max_tokens: int = 64
    prompt_words: int = 40
    seed: int = 0
    poisson: bool = True
    timeout_s: float = 60.0
    user: str | None = None

    def __post_init__(self) -> None:
        if not (self.rps > 0 and self.seconds > 0 and self.timeout_s > 0):
            raise ConfigError("rps, seconds and the timeout must be above 0")
        if self.max_tokens < 1 or self.prompt_words < 1:
            raise ConfigError("max_tokens and prompt_words must be at least 1")
        if self.rps * self.seconds > 1_000_000:
            raise ConfigError("that is more than a million requests; lower rps or seconds")


@dataclass(frozen=True, slots=True)
class Waited:
    """One request over. Times from when it was due, which is `due_s` after the start.

    `code` None: it went well; else why not. `late_ms` is how late it was sent.
    """

    due_s: float
    latency_ms: float
    code: str | None = None
    first_token_ms: float | None = None
    queue_ms: float | None = None
    late_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What became of a plan. Percentiles are of requests that went well; None: there was none."""

    plan: LoadPlan
    sent: int
    ok: int
    failed: int
    errors: dict[str, int]
    wall_s: float
    rps_achieved: float
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    first_token_p50_ms: float | None
    first_token_p95_ms: float | None
    first_token_p99_ms: float | None
    queue_p95_ms: float | None
    late_p99_ms: float | None
    """How late requests left this process; much of it means that the generator is too slow."""
    waits: tuple[Waited, ...] = field(default=(), repr=False)

    def to_json(self) -> dict[str, Any]:
        """All figures; without the single requests."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        del plain["waits"], plain["plan"]
        return asdict(self.plan) | plain


def arrivals(plan: LoadPlan) -> list[float]:
    """When each request is due, in seconds after the start, in order; all within `seconds`."""
    if not plan.poisson:
        return [n / plan.rps for n in range(math.ceil(plan.rps * plan.seconds - 1e-9))]
    chance = random.Random(plan.seed)  # noqa: S311 - load, not secrets
    due: list[float] = []
    at_s = chance.expovariate(plan.rps)
    while at_s < plan.seconds:
        due.append(at_s)
        at_s += chance.expovariate(plan.rps)
    return due


def prompt(plan: LoadPlan, number: int) -> str:
    """The text of the `number`-th request: its own, and the same in every run."""
    chance = random.Random(f"{plan.seed}/{number}")  # noqa: S311 - load, not secrets
    words = chance.choices(_WORDS, k=plan.prompt_words)
    return f"{number}: {' '.join(words)}"


def summary(plan: LoadPlan, waits: Sequence[Waited], wall_s: float) -> LoadReport:
    """The figures of a run."""
    well = [one for one in waits if one.code is None]
    latencies = sorted(one.latency_ms for one in well)
    firsts = sorted(one.first_token_ms for one in well if one.first_token_ms is not None)
    queued = sorted(one.queue_ms for one in well if one.queue_ms is not None)
    late = sorted(one.late_ms for one in waits)
    return LoadReport(
        plan=plan,
        sent=len(waits),
        ok=len(well),
        failed=len(waits) - len(well),
        errors=dict(Counter(one.code for one in waits if one.code is not None).most_common()),
        wall_s=round(wall_s, 3),
        rps_achieved=round(len(waits) / max(plan.seconds, 1e-9), 3),
        mean_ms=round(sum(latencies) / len(latencies), 3) if latencies else None,
        p50_ms=percentile(latencies, 0.50),
        p95_ms=percentile(latencies, 0.95),
        p99_ms=percentile(latencies, 0.99),
        max_ms=percentile(latencies, 1.0),
        first_token_p50_ms=percentile(firsts, 0.50),
        first_token_p95_ms=percentile(firsts, 0.95),
        first_token_p99_ms=percentile(firsts, 0.99),
        queue_p95_ms=percentile(queued, 0.95),
        late_p99_ms=percentile(late, 0.99),
        waits=tuple(sorted(waits, key=lambda one: one.due_s)),
    )


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The `share` quantile by nearest rank, to a thousandth; None: there are no values."""
    value = nearest_rank(ordered, share)
    return None if value is None else round(value, 3)
