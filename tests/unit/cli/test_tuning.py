"""NAME=VALUE of `giveway throttle tune`, and what a pool's settings may be tuned to."""

from __future__ import annotations

from typing import Any

import pytest

from app.cli.parts.tuning import changes_in
from app.errors import ConfigError, UnknownName, UsageError
from app.services.pools import TUNABLE, check_changes


def test_values_are_whole_numbers_fractions_or_words() -> None:
    texts = ["batch_max=3", "target_p95_ms=2.5e2", "policy=aimd", "options.backoff = 0.7"]

    assert changes_in(texts) == {
        "batch_max": 3,
        "target_p95_ms": 250.0,
        "policy": "aimd",
        "options.backoff": 0.7,
    }


@pytest.mark.parametrize("text", ["batch_max", "batch_max=", "=3", ""])
def test_what_is_no_change_says_how_to_write_one(text: str) -> None:
    with pytest.raises(UsageError, match="say NAME=VALUE, such as target_p95_ms=400"):
        changes_in([text])


def test_a_setting_that_is_said_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="total is said twice: 3 and 4"):
        changes_in(["total=3", "total=4"])


def test_a_name_that_cannot_be_tuned_lists_those_that_can() -> None:
    with pytest.raises(UnknownName, match="no tunable setting 'traget'") as raised:
        check_changes({"traget": "fast"})

    assert all(name in str(raised.value) for name in TUNABLE)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"target_p95_ms": "fast"}, "target_p95_ms must be a number, not 'fast'"),
        ({"options.backoff": "x"}, "options.backoff must be a number"),
        ({"window_s": float("nan")}, "window_s must be a number, not nan"),
        ({"total": 3.5}, "total must be a whole number, not 3.5"),
        ({"people_capacity": True}, "must be a number"),
    ],
)
def test_a_value_that_is_no_number_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_changes(changes)


def test_whole_numbers_fractions_and_policies_are_taken() -> None:
    check_changes({"total": 8.0, "window_s": 0.5, "policy": "static", "options.backoff": 0.7})
