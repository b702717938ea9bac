"""Places that serve models: what each takes and costs, and when it is left alone."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from app.settings.group import Count, Group, Name, NotNegative, Positive


class ModelLimitsSettings(Group):
    """`[[endpoints.limits]]`: what an endpoint takes of one of its models in particular."""

    model: str
    max_batch_items: Annotated[int, Field(ge=1, le=2048)] | None = None
    max_batch_tokens: Annotated[int, Field(ge=16)] | None = None
    max_input_tokens: Annotated[int, Field(ge=16)] | None = None


class EndpointSettings(Group):
    """`[[endpoints]]`: a place that serves models."""

    name: Name
    pool: Name = "main"
    kind: Literal["openai", "vllm", "tei", "ollama", "llamacpp", "simulated"] = "openai"
    base_url: str
    """With the version part, as OpenAI clients take it: http://127.0.0.1:8000/v1."""
    models: Annotated[tuple[str, ...], Field(min_length=1)]
    max_concurrency: Count = 8
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """The *name* of the environment variable that holds the key; never the key itself."""
    role: Literal["primary", "backup", "degraded"] = "primary"
    max_batch_items: Annotated[int, Field(ge=1, le=2048)] | None = None
    max_batch_tokens: Annotated[int, Field(ge=16)] | None = None
    connect_timeout_s: Positive = 5.0
    max_input_tokens: Annotated[int, Field(ge=16)] | None = None
    """Longest single input that the models take; None: not known."""
    max_request_bytes: Annotated[int, Field(ge=1024)] = 10_000_000
    """Longest request that the server, or the proxy before it, reads. An item that needs a longer
    one is a bad line of its source."""
    requests_per_minute: Count | None = None
    """Of all processes together, in any 60 s. None: no budget."""
    tokens_per_minute: Count | None = None
    """Prompt and completion together, in any 60 s. None: no budget."""
    input_price: NotNegative = 0.0
    """Money for a million prompt tokens, in a currency of your choice, the same everywhere."""
    output_price: NotNegative = 0.0
    """Money for a million completion tokens."""
    stands_in_for: tuple[str, ...] = ()
    """Of a degraded endpoint: the models for which its own first model may answer."""
    tokenizer: str | None = None
    """Path of a tokenizer.json, to count tokens before they are sent where the server has no
    tokenize call (vllm, llamacpp and tei have one). None: a rough count there."""
    limits: tuple[ModelLimitsSettings, ...] = ()
    """Tables `[[endpoints.limits]]`: a `model`, and its own max_batch_items, max_batch_tokens and
    max_input_tokens, where they are not those of the endpoint."""

    @field_validator("base_url")
    @classmethod
    def _is_http(cls, url: str) -> str:
        if not re.match(r"^https?://[^/\s]+", url):
            raise ValueError("must be an address such as http://127.0.0.1:8000/v1")
        if re.match(r"^https?://[^/@\s]*@", url):
            raise ValueError("must hold no password; name the key's variable in api_key_env")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _limits_are_of_its_models(self) -> Self:
        named = [one.model for one in self.limits]
        for model in named:
            if model not in self.models:
                raise ValueError(
                    f"endpoint {self.name!r}: limits are for model {model!r}, which it does not "
                    f"serve; its models: {', '.join(self.models)}"
                )
            if named.count(model) > 1:
                raise ValueError(f"endpoint {self.name!r}: two limits for model {model!r}")
        return self

    @model_validator(mode="after")
    def _only_degraded_ones_stand_in(self) -> Self:
        if self.stands_in_for and self.role != "degraded":
            raise ValueError(
                f'endpoint {self.name!r}: stands_in_for is for role = "degraded", '
                f"but its role is {self.role!r}"
            )
        return self


class HealthSettings(Group):
    """`[health]`: when an endpoint is left alone, and how it comes back."""

    failures_to_open: Count = 5
    """Failures in a row that open an endpoint's breaker: it then gets nothing but probes."""
    open_s: Positive = 5.0
    """How long a breaker stays open before a probe; doubled each time the probe fails."""
    open_max_s: Positive = 60.0
    """The longest that it stays open at a time."""
    probe_timeout_s: Positive = 10.0
    """How long a probe may take."""
    slow_factor: Annotated[float, Field(gt=1)] = 2.5
    """So many times slower than its peers makes an endpoint slow: work goes to the others first.
    Below three, so that one which is three times slower is past it, whatever its load."""
    slow_window_s: Positive = 30.0
    """Over how much of the past endpoints are compared."""
