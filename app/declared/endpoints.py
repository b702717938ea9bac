"""Endpoints, whether giveway.toml declares them or they are added while everything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from app.domain.routing import EndpointSpec, ModelLimits
from app.errors import ConfigError
from app.extras import need
from app.settings import EndpointSettings, Settings


def check_installed(settings: Settings) -> None:
    """MissingPart: an endpoint counts with a tokenizer file, and what reads such is not there."""
    if any(endpoint.tokenizer is not None for endpoint in settings.endpoints):
        need("counting with a tokenizer file needs the package", "tokens", ["tokenizers"])


def endpoint_of(declaration: Mapping[str, Any]) -> EndpointSpec:
    """The endpoint of a declaration, by the rules of `[[endpoints]]`. ConfigError says which is
    broken; what was given is not repeated, for it may be a key."""
    try:
        return spec_of(EndpointSettings(**declaration))
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc'])) or 'endpoint'}: "
            f"{fault['msg'].removeprefix('Value error, ')}"
            for fault in error.errors(include_url=False, include_context=False)
        ]
        raise ConfigError("\n".join(faults)) from None


def spec_of(endpoint: EndpointSettings) -> EndpointSpec:
    """The endpoint of one table `[[endpoints]]`."""
    return EndpointSpec(
        name=endpoint.name,
        pool=endpoint.pool,
        kind=endpoint.kind,
        base_url=endpoint.base_url,
        models=endpoint.models,
        max_concurrency=endpoint.max_concurrency,
        role=endpoint.role,
        api_key_env=endpoint.api_key_env,
        max_batch_items=endpoint.max_batch_items,
        max_batch_tokens=endpoint.max_batch_tokens,
        connect_timeout_s=endpoint.connect_timeout_s,
        max_input_tokens=endpoint.max_input_tokens,
        max_request_bytes=endpoint.max_request_bytes,
        requests_per_minute=endpoint.requests_per_minute,
        tokens_per_minute=endpoint.tokens_per_minute,
        input_price=endpoint.input_price,
        output_price=endpoint.output_price,
        stands_in_for=endpoint.stands_in_for,
        tokenizer=endpoint.tokenizer,
        limits=tuple(ModelLimits(**one.model_dump()) for one in endpoint.limits),
    )
