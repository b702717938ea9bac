"""What a pool's tables come to."""

from __future__ import annotations

from typing import Any

import pytest

from app.declared.pools import pools_of
from app.domain.throttle.values import Bounds
from app.errors import UnknownName
from app.services.pools import Pool
from app.settings import Settings


def pool(throttle: dict[str, Any] | None = None, **said: Any) -> Pool:
    """The pool of one table `[[pools]]`, with an endpoint in it and one in another."""
    declared = {
        "pools": [{"name": "main", **said}, {"name": "far"}],
        "endpoints": [
            {"name": name, "pool": of, "base_url": "http://h/v1", "models": ["m"]}
            for name, of in (("here", "main"), ("there", "far"))
        ],
        "throttle": throttle or {},
    }
    return pools_of(Settings.model_validate(declared)).named("main")


def test_batch_may_have_what_the_reserve_leaves() -> None:
    assert pool(total=10, reserve=3, batch_min=2).bounds == Bounds(10, 3, 2, 7, "main")
    assert pool(total=10, reserve=3, batch_max=4).bounds == Bounds(10, 3, 1, 4, "main")


def test_a_pool_has_its_own_endpoints_only() -> None:
    assert [spec.name for spec in pool().endpoints] == ["here"]


def test_a_policy_of_its_own_wins_over_that_of_the_throttle() -> None:
    assert pool({"policy": "aimd"}).policy.name == "aimd"
    assert pool({"policy": "aimd"}, policy="vegas").policy.name == "vegas"


def test_targets_for_streams_follow_the_one_for_all_where_nothing_is_said() -> None:
    silent = pool(target_p95_ms=800).policy
    said = pool(target_p95_ms=800, first_token_target_ms=300, per_token_target_ms=20).policy

    assert (silent.first_token_target_ms, silent.per_token_target_ms) == (800, 50)
    assert (said.first_token_target_ms, said.per_token_target_ms) == (300, 20)


def test_what_else_is_said_reaches_the_policy() -> None:
    throttle = {"rps_threshold": 9, "window_s": 7, "alpha": 0.5, "valid_for_s": 8}
    policy = pool(throttle, people_capacity=5, short_output_tokens=4).policy

    assert {name: getattr(policy, name) for name in throttle} == throttle
    assert (policy.people_capacity, policy.short_output_tokens) == (5, 4)


def test_a_policy_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(UnknownName, match="'vega'"):
        pool(policy="vega")
