"""What a policy is: a law from a sound reading to the limit it would like. `decide` guards it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from app.domain.throttle.readings import Reading
from app.domain.throttle.values import Bounds, PolicySettings, Reason, State


@dataclass(frozen=True, slots=True)
class Case:
    """All that a law may look at. `state.interactive_peak` is that of now already."""

    state: State
    reading: Reading
    settings: PolicySettings
    bounds: Bounds
    now: datetime


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a law wants. `decide` clamps `limit`; `state` carries only what the law remembers."""

    limit: float
    pressure: float
    reason: Reason
    state: State
    figures: Mapping[str, float | str | None] = field(default_factory=dict)
    feeds_forward: bool = False
    """Whether claims go on from C and from what is known of KV memory (`decide.limit_now`). Of a
    law that does not, claims meet just the limit: the C of another law before it is dropped."""


class Policy(Protocol):
    """One law. It never sees a broken or missing reading and need not clamp."""

    @property
    def name(self) -> str: ...

    @property
    def options(self) -> Mapping[str, float]:
        """Its numbers and their defaults; `PolicySettings.options` may replace them by name."""
        ...

    def propose(self, case: Case) -> Proposal: ...


def options_of(policy: Policy, settings: PolicySettings) -> Mapping[str, float]:
    """The policy's numbers with the pool's own over them."""
    return {**policy.options, **settings.options} if settings.options else policy.options


def elapsed_s(state: State, now: datetime, most_s: float = 5.0) -> float:
    """Seconds since the last decision, 0 for the first one, never more than `most_s`."""
    if state.decided_at is None:
        return 0.0
    return min(most_s, max(0.0, (now - state.decided_at).total_seconds()))
