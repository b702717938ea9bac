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
    Wait,
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
    errors.BudgetSpent: Wait,
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


def test_items_that_had_a_bad_reply_elsewhere_are_searched_for_the_one_that_causes_it() -> None:
    bad = errors.BadReply("NaN")
    assert consequence(bad, 64, 0) == Retry("bad_reply", "NaN")
    assert consequence(bad, 64, 1) == Bisect("bad_reply", "NaN")
    assert consequence(bad, 1, 1) == Retry("bad_reply", "NaN")
