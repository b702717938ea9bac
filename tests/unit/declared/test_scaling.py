"""What a table of scaling asks for."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from app.declared.scaling import targets_of
from app.services.scaling import Target
from app.settings import Settings

RULES = {
    "minimum": 2,
    "maximum": 9,
    "backlog_per_endpoint": 11.0,
    "oldest_wait_s": 12.0,
    "idle_share": 0.2,
    "hold_s": 13.0,
    "out_cooldown_s": 14.0,
    "in_cooldown_s": 15.0,
    "start_timeout_s": 16.0,
}


def target(**said: Any) -> Target:
    table = {"pool": "main", "command": ["serve", "{port}"], **said}
    (one,) = targets_of(Settings.model_validate({"scaling": [table]}))
    return one


def test_every_rule_of_the_table_reaches_the_target() -> None:
    one = target(**RULES, max_concurrency=5, hook_timeout_s=3.0)

    assert asdict(one.rules).items() >= RULES.items()
    assert (one.pool, one.max_concurrency, one.hook_timeout_s) == ("main", 5, 3.0)


@pytest.mark.parametrize(
    ("sort", "waits_for_start", "hook"),
    [
        ("process", True, ()),
        ("hook", False, ("serve", "{port}")),
        ("keda", False, ()),
    ],
)
def test_a_hook_is_told_and_only_own_processes_are_waited_for(
    sort: str, waits_for_start: bool, hook: tuple[str, ...]
) -> None:
    one = target(target=sort)

    assert (one.waits_for_start, one.hook) == (waits_for_start, hook)
