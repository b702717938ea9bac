"""Merging: who waits for company, what a call holds, and how its answer is shared out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import errors
from app.domain.inference import EmbedReply, Usage
from app.domain.merging import (
    MergeRule,
    Traffic,
    bounded,
    departs_at_s,
    has_company,
    is_small,
    shared_out,
    shares,
    splits,
)
from app.domain.routing import EndpointSpec, ModelLimits

RULE = MergeRule(wait_s=0.004, most_texts=64, most_tokens=1000)


def test_a_lone_request_has_no_company() -> None:
    assert not has_company(Traffic(), 10.0, RULE)
    assert not has_company(Traffic(under_way=3, last_came_s=10.0), 10.013, RULE)
    assert has_company(Traffic(under_way=1, last_came_s=10.0), 10.001, RULE)


def test_one_who_asks_again_and_again_waits_for_nobody() -> None:
    assert not has_company(Traffic(under_way=0, last_came_s=10.0), 10.001, RULE)


def test_those_who_just_shared_a_call_promise_more() -> None:
    assert has_company(Traffic(last_shared_s=10.0), 10.001, RULE)
    assert not has_company(Traffic(last_shared_s=10.0), 10.013, RULE)


def test_a_ride_departs_when_nobody_joins_and_never_later_than_five_waits() -> None:
    assert departs_at_s(1.0, 1.0, RULE) == pytest.approx(1.004)
    assert departs_at_s(1.0, 1.010, RULE) == pytest.approx(1.014)
    assert departs_at_s(1.0, 1.019, RULE) == pytest.approx(1.020)


@pytest.mark.parametrize(
    ("texts", "small"),
    [(["one"], True), (["one"] * 16, True), (["one"] * 17, False), (["long " * 400], False)],
)
def test_only_small_requests_share(texts: list[str], small: bool) -> None:
    assert is_small(texts, RULE) is small


def test_nothing_is_merged_without_a_wait() -> None:
    assert not is_small(["one"], MergeRule(wait_s=0.0))


def test_a_call_holds_what_every_endpoint_of_the_model_takes() -> None:
    specs = [
        EndpointSpec("a", "main", "tei", "http://x/v1", ("m",), 8, max_batch_items=32),
        EndpointSpec("b", "main", "vllm", "http://x/v1", ("m",), 8, max_batch_tokens=512),
        EndpointSpec("c", "main", "vllm", "http://x/v1", ("n",), 8, max_batch_items=1),
    ]
    assert bounded(RULE, "m", specs) == MergeRule(0.004, 32, 512)
    own = replace(specs[0], models=("m", "o"), limits=(ModelLimits("o", max_batch_items=4),))
    assert bounded(RULE, "o", [own]).most_texts == 4
    assert bounded(RULE, "m", [own]).most_texts == 32


@given(st.integers(0, 100_000), st.lists(st.integers(1, 1000), min_size=1, max_size=64))
def test_shares_sum_up_and_are_within_one_of_fair(total: int, weights: list[int]) -> None:
    out = shares(total, weights)
    assert sum(out) == total
    for share, weight in zip(out, weights, strict=True):
        assert abs(share - total * weight / sum(weights)) <= 1


def test_each_gets_its_own_vectors_and_its_share_of_the_tokens() -> None:
    vectors = np.arange(8, dtype=np.float32).reshape(4, 2)
    reply = EmbedReply(vectors, Usage(10, 0), "m")
    first, second = shared_out(reply, [["a"], ["b", "c", "d d d d"]])
    assert first.vectors.tolist() == [[0, 1]]
    assert second.vectors.tolist() == [[2, 3], [4, 5], [6, 7]]
    assert first.usage.prompt_tokens + second.usage.prompt_tokens == 10


def test_one_bad_text_fails_nobody_else() -> None:
    assert splits(errors.BadRequest("x"), 2)
    assert splits(errors.BadReply("x"), 2)
    assert not splits(errors.BadRequest("x"), 1)
    assert not splits(errors.Overloaded("x"), 2)
