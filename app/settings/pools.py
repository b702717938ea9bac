"""What a pool carries, and how its limit is recomputed."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from app.settings.group import Count, Group, Name, Positive


class PoolSettings(Group):
    """`[[pools]]`: endpoints that share capacity, and so one limit."""

    name: Name
    total: Count = 8
    """Requests in flight, both classes together."""
    reserve: Count = 1
    """Places that batch never takes."""
    batch_min: Count = 1
    batch_max: Count | None = None
    """None: total − reserve."""
    target_p95_ms: Positive = 500.0
    """What an interactive request may take, end to end."""
    first_token_target_ms: Positive | None = None
    per_token_target_ms: Positive | None = None
    short_output_tokens: Annotated[int, Field(ge=0)] = 16
    """Answers of at most so many tokens are held to the whole time, longer ones to their parts."""
    people_capacity: Count | None = None
    """Interactive requests in flight that are slow without any batch; `giveway calibrate` measures
    it. Who came into such a crowd is not late because of batch. None: not known."""
    deadline_before_people: bool = False
    """Whether jobs with a deadline hold their places (a quarter of what the pool bears at most)
    also while people miss their target. Otherwise they stand back then."""
    policy: str | None = None
    """None: `[throttle] policy`."""
    options: dict[str, float] = Field(default_factory=dict)
    """Constants of the policy, by name."""

    @property
    def ceiling(self) -> int:
        """The most batch requests in flight that the pool ever allows."""
        return self.total - self.reserve if self.batch_max is None else self.batch_max

    @model_validator(mode="after")
    def _room_for_both(self) -> Self:
        if not self.batch_min <= self.ceiling <= self.total - self.reserve:
            raise ValueError(
                f"pool {self.name!r}: needs batch_min <= batch_max <= total - reserve, "
                f"but batch_min = {self.batch_min}, batch_max = {self.ceiling}, "
                f"total - reserve = {self.total} - {self.reserve}"
            )
        return self


class ThrottleSettings(Group):
    """`[throttle]`: how the limit is recomputed; each pool may override the policy."""

    policy: str = "budget"
    tick_s: Annotated[float, Field(ge=0.2, le=60)] = 1.0
    window_s: Annotated[float, Field(ge=1, le=600)] = 10.0
    valid_for_s: Annotated[float, Field(ge=1)] = 10.0
    """A limit older than this counts no more: everyone falls to the floor."""
    rps_threshold: Positive = 20.0
    alpha: Annotated[float, Field(gt=0, le=1)] = 0.3
    keep_decisions_h: Positive = 72.0

    @model_validator(mode="after")
    def _outlives_ticks(self) -> Self:
        if self.valid_for_s < 3 * self.tick_s:
            raise ValueError(
                f"valid_for_s = {self.valid_for_s:g} must be at least three ticks "
                f"(tick_s = {self.tick_s:g}), or one late tick sends batch to the floor"
            )
        return self
