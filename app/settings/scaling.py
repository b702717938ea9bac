"""When a pool gets more endpoints and fewer, and who starts them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from app.settings.group import Count, Group, Name, Positive


class ScalingSettings(Group):
    """`[[scaling]]`: more endpoints for a pool when work waits, fewer when it does not."""

    pool: Name
    """The pool that grows and shrinks."""
    minimum: Annotated[int, Field(ge=0)] = 1
    """Endpoints that are always there, beside those declared."""
    maximum: Count = 4
    """Endpoints that are never passed, beside those declared."""
    backlog_per_endpoint: Positive = 64.0
    """Requests waiting an endpoint, above which one more is wanted."""
    oldest_wait_s: Positive = 30.0
    """A request that has waited longer than this wants one more endpoint."""
    idle_share: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Below this share of places in use, one endpoint fewer is wanted."""
    hold_s: Positive = 10.0
    """How long a bound has to be passed without a break before one more is wanted."""
    out_cooldown_s: Positive = 15.0
    """Pause after a step before one more is wanted."""
    in_cooldown_s: Positive = 60.0
    """How long it has to be idle without a break, and after any step, before one fewer is wanted.
    """
    start_timeout_s: Positive = 300.0
    """How long a new endpoint may take until it answers; meanwhile no other one is asked for."""
    drain_timeout_s: Positive = 600.0
    """How long a leaving endpoint may take over what it still has in flight."""
    hook_timeout_s: Positive = 30.0
    """How long the command of a hook may run."""
    target: Literal["process", "hook", "keda"] = "process"
    """Who starts and stops endpoints: Giveway itself, a command of yours, or KEDA."""
    command: tuple[str, ...] = ()
    """process: the command that serves one more endpoint, with {port} in it. hook: the command that
    is told {pool}, {wanted} and {current}."""
    kind: Literal["openai", "vllm", "tei", "ollama", "llamacpp", "simulated"] = "openai"
    """What kind of server the command starts."""
    models: tuple[str, ...] = ()
    """The models that it serves."""
    max_concurrency: Count = 8
    """Of each endpoint that is started; the pool's total grows by it."""

    @model_validator(mode="after")
    def _lawful(self) -> Self:
        if self.minimum > self.maximum:
            raise ValueError(
                f"scaling of pool {self.pool!r}: minimum = {self.minimum} is above "
                f"maximum = {self.maximum}"
            )
        if self.target != "keda" and not self.command:
            raise ValueError(
                f"scaling of pool {self.pool!r}: target = {self.target!r} needs a command"
            )
        return self
