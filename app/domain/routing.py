"""Which endpoint gets the next request: the least loaded that serves the model and has room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EndpointSpec:
    """An endpoint as it is declared. `api_key_env` names a variable; the key is never here."""

    name: str
    pool: str
    kind: str
    base_url: str
    models: tuple[str, ...]
    max_concurrency: int
    role: str = "primary"
    api_key_env: str | None = None
    max_batch_items: int | None = None
    max_batch_tokens: int | None = None
    connect_timeout_s: float = 5.0
    max_input_tokens: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    input_price: float = 0.0
    output_price: float = 0.0
    stands_in_for: tuple[str, ...] = ()
    tokenizer: str | None = None


@dataclass(frozen=True, slots=True)
class EndpointHealth:
    """`cooling`: it refused and its cool-down is not over. `refusals` in a row."""

    cooling: bool = False
    refusals: int = 0


def serving(model: str, specs: Sequence[EndpointSpec]) -> list[EndpointSpec]:
    """The endpoints that serve `model`, in the order declared."""
    return [spec for spec in specs if model in spec.models]


def chosen(
    model: str,
    specs: Sequence[EndpointSpec],
    health: Mapping[str, EndpointHealth],
    in_flight: Mapping[str, int],
) -> EndpointSpec | None:
    """The endpoint for one more request for `model`; None: every one is full or cooling.

    Least share of its capacity in use first; among equals the one declared first.
    """
    free = [
        spec
        for spec in serving(model, specs)
        if in_flight.get(spec.name, 0) < spec.max_concurrency
        and not health.get(spec.name, EndpointHealth()).cooling
    ]
    return min(free, key=lambda s: in_flight.get(s.name, 0) / s.max_concurrency, default=None)
