"""What is said of an endpoint is what services are told of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from app.declared.endpoints import endpoint_of
from app.errors import ConfigError
from app.settings import EndpointSettings

EVERYTHING: dict[str, Any] = {
    "name": "one",
    "pool": "far",
    "kind": "vllm",
    "base_url": "http://10.0.0.1:8000/v1",
    "models": ("a", "b"),
    "max_concurrency": 3,
    "role": "degraded",
    "api_key_env": "A_KEY",
    "max_batch_items": 7,
    "max_batch_tokens": 700,
    "connect_timeout_s": 1.5,
    "max_input_tokens": 512,
    "max_request_bytes": 2_000_000,
    "requests_per_minute": 60,
    "tokens_per_minute": 9_000,
    "input_price": 0.5,
    "output_price": 1.5,
    "stands_in_for": ("c",),
    "tokenizer": "tokenizer.json",
    "limits": (
        {"model": "b", "max_batch_items": 2, "max_batch_tokens": 64, "max_input_tokens": 32},
    ),
}


def test_every_key_of_the_table_reaches_the_endpoint() -> None:
    assert set(EVERYTHING) == set(EndpointSettings.model_fields)
    assert asdict(endpoint_of(EVERYTHING)) == EVERYTHING


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"base_url": "http://sk-secret@h/v1"}, "base_url: must hold no password"),
        ({"api_key_env": "sk-secret"}, "api_key_env: String should match"),
        ({"api_key": "sk-secret"}, "api_key: Extra inputs are not permitted"),
        ({"role": "primary"}, "endpoint: endpoint 'one': stands_in_for is for role"),
    ],
)
def test_a_fault_names_the_key_and_does_not_repeat_what_may_be_a_secret(
    wrong: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        endpoint_of(EVERYTHING | wrong)

    assert str(raised.value).startswith(fault)
    assert "sk-secret" not in str(raised.value)
