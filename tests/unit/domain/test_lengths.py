"""What no endpoint could take."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.lengths import Longest, longest_of
from app.domain.routing import DEFAULT_REQUEST_BYTES, EndpointSpec, ModelLimits
from app.settings import EndpointSettings


def a_spec(name: str = "one", **more: Any) -> EndpointSpec:
    return EndpointSpec(name, "main", "openai", "http://h/v1", ("m",), 8, **more)


def test_the_most_that_some_endpoint_takes_counts() -> None:
    small, large = a_spec(max_input_tokens=512), a_spec("two", max_input_tokens=8192)

    assert longest_of("m", [small, large]) == Longest(8192, DEFAULT_REQUEST_BYTES)
    assert longest_of("m", [small, a_spec("three")]) == Longest(None, DEFAULT_REQUEST_BYTES)
    assert longest_of("m", [a_spec(max_request_bytes=2000)]) == Longest(None, 2000)
    assert longest_of("other", [small]) is None


def test_an_input_is_no_longer_than_a_request_and_a_model_may_have_its_own_limit() -> None:
    whole = a_spec(max_input_tokens=8192, max_batch_tokens=4096)
    own = a_spec(max_input_tokens=8192, limits=(ModelLimits("m", max_input_tokens=512),))

    assert longest_of("m", [whole]) == Longest(4096, DEFAULT_REQUEST_BYTES)
    assert longest_of("m", [own]) == Longest(512, DEFAULT_REQUEST_BYTES)


@pytest.mark.parametrize(
    ("longest", "texts", "why"),
    [
        (Longest(None, 10_000), ["x" * 9_000], None),
        (Longest(None, 10_000), ["x" * 10_000], "a request of 10,002 bytes"),
        (Longest(None, 10_000), ["x" * 5_000, "y" * 5_000], "a request of 10,004 bytes"),
        (Longest(None, 10_000), ["é" * 5_000], "a request of 10,002 bytes"),
        (Longest(None, 10_000), ['"' * 5_000], "a request of 10,002 bytes"),
        (Longest(16, 10_000), ["x" * 1_024], None),
        (Longest(16, 10_000), ["x" * 1_025], "surely more than the 16 tokens"),
        (Longest(16, 10_000), ["é" * 513], "a text of 1,026 bytes"),
        (Longest(16, 10_000), ["x" * 600, "x" * 600], None),
    ],
)
def test_what_surely_does_not_fit_is_told(
    longest: Longest, texts: list[str], why: str | None
) -> None:
    found = longest.excess(texts)

    assert found is None if why is None else why in str(found)


@pytest.mark.parametrize("longest", [Longest(None, 10_000), Longest(16, 10_000), Longest(16, 1024)])
def test_what_need_not_be_looked_at_fits(longest: Longest) -> None:
    for one in ("x", "é", "😀", "\x01"):
        assert longest.excess([one * longest.surely_fits_chars]) is None


def test_the_settings_have_the_same_default() -> None:
    assert EndpointSettings.model_fields["max_request_bytes"].default == DEFAULT_REQUEST_BYTES
