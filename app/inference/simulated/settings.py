"""What a simulated endpoint is started with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from app import errors
from app.inference.simulated.faults import Fault

Scheduling = Literal["fcfs", "priority"]


@dataclass(frozen=True, slots=True)
class ModelCosts:
    """The server model: what one step costs and what it may hold.

    The defaults are an 8B model on an A100: 12.5 ms a step, 0.06 ms a prompt token, 0.02 ms a
    running request, 0.09 µs a token of context.
    """

    step_s: float = 0.0125
    prefill_token_s: float = 0.00006
    running_s: float = 0.00002
    context_token_s: float = 0.00000009
    kv_tokens: int = 140_000
    step_tokens: int = 2_048
    """Token budget of a step; a longer prompt is prefilled in chunks."""


@dataclass(frozen=True, slots=True)
class SimulatedSettings:
    """`port` 0 takes a free one. `places` is how many requests run at a time. `speed` 2 halves
    all times. `scheduling` fcfs is first come, first served; priority runs the lowest `priority`
    first. `api_key` None asks for none. `ledger` counts every single input. `faults` are in force
    from the start. `seed` makes faults strike alike in every run.
    """

    host: str = "127.0.0.1"
    port: int = 0
    places: int = 8
    models: tuple[str, ...] = ("fake-chat", "fake-embed")
    speed: float = 1.0
    scheduling: Scheduling = "fcfs"
    costs: ModelCosts = field(default_factory=ModelCosts)
    max_model_tokens: int = 32_768
    api_key: str | None = None
    ledger: bool = False
    faults: tuple[Fault, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.places < 1 or self.speed <= 0 or not self.models:
            raise errors.ConfigError("places must be at least 1, speed above 0, models not empty")
        if self.scheduling not in ("fcfs", "priority"):
            raise errors.ConfigError(f"no scheduling {self.scheduling!r}; known: fcfs, priority")
        if self.costs.kv_tokens < max(self.costs.step_tokens, 1):
            raise errors.ConfigError("kv_tokens must hold at least one step's tokens")
