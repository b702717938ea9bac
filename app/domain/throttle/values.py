"""What a decision is made of besides the reading (bounds, settings, state), and the decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from app.domain.throttle.codec import from_plain, to_plain
from app.domain.throttle.kv import Kv
from app.errors import ConfigError


class Reason(StrEnum):
    """Why the limit is what it is, in one word."""

    OVERLOAD = "overload"
    """People miss the target, or the endpoint refuses: cut."""
    COOLING = "cooling"
    """Still over target, but the last cut has not had time to act."""
    NEAR_TARGET = "near_target"
    """Close to the target: hold."""
    HOLDING = "holding"
    """On target, not for long enough to raise."""
    GROWING = "growing"
    """On target, the limit is used: raise what is remembered as the capacity."""
    LIMIT_UNUSED = "limit_unused"
    """On target, but batch does not reach the limit: it has proved nothing."""
    HEADROOM = "headroom"
    """Room is left, and the limit already is as high as it may be."""
    MEMORY = "memory"
    """The endpoint's KV memory bears no more, whatever people's latency would allow."""
    NO_TRAFFIC = "no_traffic"
    """Nobody is waiting: as much batch as the endpoint turns into work."""
    FIXED = "fixed"
    """The policy does not look at latency."""
    FOLLOWING = "following"
    """The limit is a formula of the present load, without memory of capacity."""
    STALE = "stale"
    """No reading, an old or impossible one, or a clock that jumped: the floor."""
    OVERRIDE = "override"
    """An operator set the limit."""
    DEADLINE_FLOOR = "deadline_floor"
    """A job with a deadline holds the limit up."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A pool's places: `total` for both classes, of which `reserve` are never batch's.

    Raises ConfigError, naming the values, when they leave no lawful limit.
    """

    total: int
    reserve: int = 1
    batch_min: int = 1
    batch_max: int = 1_000_000
    pool: str = "default"

    def __post_init__(self) -> None:
        told = (
            f"pool {self.pool!r}: total {self.total}, reserve {self.reserve}, "
            f"batch_min {self.batch_min}, batch_max {self.batch_max}"
        )
        if self.reserve < 1:
            raise ConfigError(f"{told}: reserve must be 1 or more, so that a person finds a place")
        if self.batch_min < 1:
            raise ConfigError(f"{told}: batch_min must be 1 or more")
        if self.batch_max < self.batch_min:
            raise ConfigError(f"{told}: batch_max must not be under batch_min")
        if self.total - self.reserve < self.batch_min:
            raise ConfigError(
                f"{told}: total − reserve leaves {self.total - self.reserve} places for batch, "
                f"fewer than batch_min; raise total, or lower reserve or batch_min"
            )

    @property
    def floor(self) -> int:
        return self.batch_min

    @property
    def ceiling(self) -> int:
        return min(self.batch_max, self.total - self.reserve)

    def clamp(self, wanted: float) -> int:
        """The lawful limit nearest to `wanted`, rounded down; NaN counts as nothing wanted."""
        if not wanted >= self.floor:
            return self.floor
        return int(min(wanted, self.ceiling))

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        return from_plain(cls, plain)


EDITION = 2
"""Of the rules. 2: C is no more than the pool's places, and a deadline's floor stands back for
people."""


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """Which law, its targets, and how long its word holds. Kept with the pool, changed live."""

    name: str = "budget"
    target_p95_ms: float = 500.0
    """Whole time of a short or unstreamed interactive call; the pressure rule's P95 threshold."""
    first_token_target_ms: float = 500.0
    per_token_target_ms: float = 50.0
    short_output_tokens: int = 16
    """Outputs of at most so many tokens are held to the whole time; per token would be noise."""
    people_capacity: int | None = None
    """Interactive requests in flight that alone, without any batch, bring x to 0.8 (`giveway
    calibrate` measures it). A sample that found more people before it is not batch's fault.
    None: every sample counts."""
    answered_at: datetime | None = None
    """When capacity was last cut: a miss that was submitted before has had its answer, and is no
    reason for another cut. None: every miss counts."""
    rps_threshold: float = 20.0
    """The pressure rule's rate at which batch stands at its minimum."""
    window_s: float = 10.0
    alpha: float = 0.3
    """Weight of the newest value in smoothed figures, 0 to 1."""
    valid_for_s: float = 5.0
    """How long a decision holds when no newer one follows; then the floor."""
    reading_stale_s: float = 5.0
    """A reading older than this is no reading."""
    gauges_stale_s: float = 5.0
    clock_jump_s: float = 30.0
    """More time than this between two decisions is a stopped controller or a clock that jumped."""
    deadline_before_people: bool = False
    """Whether jobs with a deadline hold their places also while people miss their target."""
    edition: int = EDITION
    """By whose rules it is decided: a decision that was stored under an earlier one is replayed by
    the rules of its day. Rows of before the field are of the first."""
    options: Mapping[str, float] = field(default_factory=dict)
    """The policy's own numbers by name, over its defaults (a policy file lists them in OPTIONS)."""

    def __post_init__(self) -> None:
        positive = {
            "target_p95_ms": self.target_p95_ms,
            "first_token_target_ms": self.first_token_target_ms,
            "per_token_target_ms": self.per_token_target_ms,
            "rps_threshold": self.rps_threshold,
            "window_s": self.window_s,
            "valid_for_s": self.valid_for_s,
        }
        for name, value in positive.items():
            if not 0 < value < float("inf"):
                raise ConfigError(
                    f"policy {self.name!r}: {name} must be a number over 0, not {value}"
                )
        if not 0 < self.alpha <= 1:
            raise ConfigError(f"policy {self.name!r}: alpha must be over 0 and at most 1")

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        return from_plain(cls, {"edition": 1, **plain})


@dataclass(frozen=True, slots=True)
class State:
    """What one decision leaves to the next and every claim until then. `State()` is a new pool."""

    limit: int = 1
    reason: Reason = Reason.STALE
    decided_at: datetime | None = None
    valid_until: datetime | None = None
    """Past this the limit is the floor. None: nothing was decided yet."""
    capacity: float | None = None
    """C: requests of both classes (people at their weight) that the pool bears on target, never
    more than its `total`; what was stored before that rule is cut down wherever it is used.
    None: the policy has no such idea, and claims use `limit` as it stands."""
    interactive_peak: float = 0.0
    """I_pk at `decided_at`: interactive in flight, falling by 15 % a second after a peak."""
    interactive_level: float = 0.0
    """Interactive in flight, smoothed over some seconds: what a surge is measured against."""
    weight: float = 1.0
    """Places of C that one person takes: under 1 where a batch call is much the larger."""
    kv: Kv | None = None
    """KV memory and what requests hold of it; None: unknown, or the policy does not ask."""
    smoothed: float | None = None
    """The pressure rule's smoothed pressure; None: no reading yet."""
    cut_at: datetime | None = None
    green_ticks: int = 0
    slow_start: bool = True
    override: int | None = None
    deadline_floor: int | None = None
    """What jobs with a deadline hold the limit up to. None: nothing."""
    deadline_first: bool = False
    """Whether that holds also where people who are there would take these places."""
    deadline_next_at: datetime | None = None
    """When deadlines may hold a place more. None: whenever people are well."""
    deadline_pause_s: float = 0.0
    """How long deadlines stood back when their floor last made people miss their target."""
    quiet_limit: float | None = None
    """Holds instead, where it is larger, while no interactive request is in flight at all."""
    memory: Mapping[str, float] = field(default_factory=dict)
    """A policy's own numbers (a baseline round trip, a best rate)."""

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        return from_plain(cls, plain)

    def within(self, bounds: Bounds) -> Self:
        """The same with a C that the pool has: more requests than places it never bore at once."""
        if self.capacity is None or self.capacity <= bounds.total:
            return self
        return replace(self, capacity=float(bounds.total))


@dataclass(frozen=True, slots=True)
class Decision:
    """The limit from now on, and why."""

    limit: int
    pressure: float
    """1.0 = on target; more is pain. 0 when nothing is known."""
    reason: Reason
    state: State
    """What to store, and to hand to the next `decide` and to every `limit_now` until then."""
    figures: Mapping[str, float | str | None] = field(default_factory=dict)
    """The numbers behind the reason, by name, for `giveway throttle explain`."""

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        return from_plain(cls, plain)
