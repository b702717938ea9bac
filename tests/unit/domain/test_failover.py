"""Where a person's request may go, and which errors send it on."""

from __future__ import annotations

from typing import Any

import pytest

from app import errors
from app.domain.failover import (
    ROLES,
    Scene,
    first_token_s,
    moves_on,
    nothing_left,
    patience_s,
    place,
    roles_open,
)
from app.domain.health import Breaker
from app.domain.routing import EndpointHealth, EndpointSpec

COOLING = EndpointHealth(cooling=True)


def spec(name: str, role: str = "primary", most: int = 2, **more: Any) -> EndpointSpec:
    given = {"models": ("m",), **more}
    return EndpointSpec(
        name, "main", "openai", "http://x/v1", max_concurrency=most, role=role, **given
    )


PRIMARY = spec("first")
BACKUP = spec("second", "backup")
DEGRADED = spec("third", "degraded", models=("small",), stands_in_for=("m",))
ALL = (PRIMARY, BACKUP, DEGRADED)


def scene(**more: Any) -> Scene:
    given: dict[str, Any] = {
        "specs": ALL,
        "health": {},
        "in_flight": {},
        "free": 8,
        "ahead": {},
    }
    return Scene(**{**given, **more})


@pytest.mark.parametrize(
    ("waited_s", "health", "roles"),
    [
        (0.0, {}, ("primary",)),
        (1.9, {}, ("primary",)),
        (2.0, {}, ("primary", "backup")),
        (4.0, {}, ROLES),
        (0.0, {"first": COOLING}, ("primary", "backup")),
        (2.0, {"first": COOLING}, ROLES),
        (0.0, {"first": COOLING, "second": EndpointHealth(draining=True)}, ROLES),
        (0.0, {"first": EndpointHealth(breaker=Breaker.OPEN)}, ("primary", "backup")),
    ],
)
def test_the_next_role_opens_when_the_one_before_is_away_or_full_for_too_long(
    waited_s: float, health: dict[str, EndpointHealth], roles: tuple[str, ...]
) -> None:
    assert roles_open("m", ALL, health, waited_s, 2.0) == roles


def test_what_was_tried_counts_as_away() -> None:
    assert roles_open("m", (BACKUP, DEGRADED), {}, 0.0, 2.0) == ("primary", "backup")
    assert roles_open("m", (DEGRADED,), {}, 0.0, 2.0) == ROLES


def test_patience_is_a_quarter_of_the_time_and_two_seconds_at_most() -> None:
    assert patience_s(4.0) == 1.0
    assert patience_s(120.0) == 2.0


def test_the_first_token_is_waited_for_as_long_as_time_remains_for_somebody_else() -> None:
    assert first_token_s(10.0, elsewhere=True) == 5.0
    assert first_token_s(600.0, elsewhere=True) == 30.0
    assert first_token_s(10.0, elsewhere=False) is None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.ConnectionFailed("x"), True),
        (errors.ServerFault("x"), True),
        (errors.RateLimited("x"), True),
        (errors.Overloaded("x"), True),
        (errors.EndpointTimeout("x"), True),
        (errors.QuotaExhausted("x"), True),
        (errors.AuthFailed("x"), True),
        (errors.ModelMissing("x"), True),
        (errors.BadReply("x"), True),
        (errors.BudgetSpent("x"), True),
        (errors.BadRequest("x"), False),
        (errors.TooLong("x"), False),
        (errors.ContentRefused("x"), False),
        (errors.Abandoned("x"), False),
    ],
)
def test_what_is_the_requests_own_fault_is_asked_of_nobody_else(
    error: errors.EndpointError, expected: bool
) -> None:
    assert moves_on(error) is expected


def test_the_table_above_knows_every_error() -> None:
    leaves = {leaf.__name__ for leaf in errors.EndpointError.__subclasses__()}
    assert len(leaves) == 14


def test_a_full_primary_is_waited_for_and_then_a_backup_answers() -> None:
    full = scene(in_flight={"first": 2})
    assert place("m", full, (), ("primary",)) is None
    choice = place("m", full, (), ("primary", "backup"))
    assert choice is not None
    assert (choice.spec, choice.model, choice.role) == (BACKUP, "m", "backup")


def test_a_degraded_endpoint_is_asked_for_its_own_model() -> None:
    choice = place("m", scene(), ("first", "second"), ROLES)
    assert choice is not None
    assert (choice.spec, choice.model, choice.role) == (DEGRADED, "small", "degraded")


def test_the_total_is_about_primaries_and_a_backup_has_places_of_its_own() -> None:
    taken = scene(free=0)
    assert place("m", taken, (), ("primary",)) is None
    choice = place("m", taken, (), ("primary", "backup"))
    assert choice is not None
    assert choice.spec is BACKUP


def test_who_comes_first_keeps_the_last_place() -> None:
    one_left = scene(in_flight={"first": 1})
    assert place("m", one_left, (), ("primary",)) is not None
    behind = scene(in_flight={"first": 1}, ahead={"m": 1})
    assert place("m", behind, (), ("primary",)) is None


def test_of_two_past_their_patience_the_second_gets_the_second_place() -> None:
    full = {"first": 2}
    assert place("m", scene(in_flight=full, ahead={"m": 1}), (), ("primary", "backup")) is not None
    assert place("m", scene(in_flight=full, ahead={"m": 2}), (), ("primary", "backup")) is None


def test_those_who_wait_for_a_model_that_is_away_hold_nobody_up() -> None:
    other = spec("other", models=("n",))
    waiting = {"ahead": {"n": 20}, "free": 2, "specs": (PRIMARY, other)}
    assert place("m", scene(**waiting), (), ("primary",)) is None
    away = scene(**waiting, health={"other": COOLING})
    assert place("m", away, (), ("primary",)) is not None


def test_nothing_is_left_when_all_were_tried_or_are_away() -> None:
    assert not nothing_left("m", ALL, {}, {"first", "second"})
    assert nothing_left("m", ALL, {}, {"first", "second", "third"})
    assert nothing_left("m", ALL, {"third": COOLING}, {"first", "second"})
