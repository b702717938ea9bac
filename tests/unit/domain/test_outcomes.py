"""Each error of an endpoint has one consequence."""

from __future__ import annotations

import pytest

from app import errors
from app.domain.outcomes import (
    Bisect,
    FailItems,
    HandBack,
    PauseJob,
    Retry,
    Snooze,
    consequence,
)


def leaves(of: type[errors.EndpointError]) -> list[type[errors.EndpointError]]:
    below = of.__subclasses__()
    return [leaf for sub in below for leaf in leaves(sub)] if below else [of]


EXPECTED = {
    errors.RateLimited: Snooze,
    errors.Overloaded: Snooze,
    errors.ConnectionFailed: Snooze,
    errors.QuotaExhausted: PauseJob,
    errors.AuthFailed: PauseJob,
    errors.ModelMissing: PauseJob,
    errors.BadRequest: Bisect,
    errors.TooLong: Bisect,
    errors.ContentRefused: Bisect,
    errors.EndpointTimeout: Retry,
    errors.ServerFault: Retry,
    errors.BadReply: Retry,
    errors.Abandoned: HandBack,
}


@pytest.mark.parametrize("leaf", leaves(errors.EndpointError), ids=lambda leaf: leaf.__name__)
def test_every_leaf_has_its_consequence(leaf: type[errors.EndpointError]) -> None:
    assert isinstance(consequence(leaf("said so"), 10), EXPECTED[leaf])


def test_every_leaf_has_a_code_of_its_own() -> None:
    codes = [leaf.code for leaf in leaves(errors.EndpointError)]
    assert len(codes) == len(set(codes))
    assert errors.EndpointError.code not in codes


def test_a_bad_input_that_stands_alone_fails() -> None:
    assert consequence(errors.BadRequest("no"), 1) == FailItems("bad_request", "no")


def test_what_the_endpoint_asked_for_is_carried_along() -> None:
    found = consequence(errors.RateLimited("slow down", retry_after_s=7.0), 5)
    assert found == Snooze(7.0, "rate_limited", "slow down")
