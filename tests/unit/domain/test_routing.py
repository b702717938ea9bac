"""Which endpoint gets the next request."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.health import Breaker
from app.domain.jobs import Failover
from app.domain.routing import (
    BACKUP,
    DEGRADED,
    PRIMARY,
    Choice,
    EndpointHealth,
    EndpointSpec,
    ModelLimits,
    Takes,
    another_does,
    batch_roles,
    chosen,
    serving,
    usable,
)


def an_endpoint(name: str, places: int = 8, models: tuple[str, ...] = ("m",)) -> EndpointSpec:
    return EndpointSpec(name, "main", "vllm", f"http://{name}/v1", models, places)


A, B = an_endpoint("a"), an_endpoint("b", places=4)


def name_of(choice: Choice | None) -> str | None:
    return None if choice is None else choice.spec.name


def test_what_is_said_of_a_model_comes_before_what_is_said_of_its_endpoint() -> None:
    limits = (ModelLimits("n", max_batch_items=32, max_input_tokens=512),)
    spec = replace(A, max_batch_items=2048, max_batch_tokens=300_000, limits=limits)
    assert spec.takes("m") == Takes(2048, 300_000, None)
    assert spec.takes("n") == Takes(32, 300_000, 512)
    assert A.takes("m") == Takes()


def test_the_least_loaded_by_share_of_its_places_is_chosen() -> None:
    assert name_of(chosen("m", [A, B], {}, {"a": 3, "b": 1})) == "b"
    assert name_of(chosen("m", [A, B], {}, {"a": 3, "b": 2})) == "a"


def test_among_equals_the_first_declared_is_chosen() -> None:
    assert chosen("m", [A, B], {}, {}) == Choice(A, "m")


def test_a_full_a_cooling_and_a_wrong_one_are_never_chosen() -> None:
    other = an_endpoint("c", models=("n",))
    assert chosen("m", [A, B, other], {"a": EndpointHealth(cooling=True)}, {"b": 4}) is None
    assert serving("n", [A, B, other]) == [other]


OPEN = EndpointHealth(breaker=Breaker.OPEN)
AWAY = [
    EndpointHealth(cooling=True),
    OPEN,
    EndpointHealth(breaker=Breaker.HALF_OPEN),
    EndpointHealth(draining=True),
]


@pytest.mark.parametrize("health", AWAY, ids=lambda health: health.word)
def test_who_is_to_be_left_alone_gets_nothing(health: EndpointHealth) -> None:
    assert name_of(chosen("m", [A, B], {"a": health}, {"b": 3})) == "b"
    assert chosen("m", [A], {"a": health}, {}) is None


def test_a_slow_one_is_put_off_until_the_others_are_full() -> None:
    health = {"a": EndpointHealth(slow=True)}
    assert name_of(chosen("m", [A, B], health, {"b": 3})) == "b"
    assert name_of(chosen("m", [A, B], health, {"b": 4})) == "a"


def test_a_trickle_lets_a_slow_one_show_that_it_has_recovered_one_request_at_a_time() -> None:
    health = {"a": EndpointHealth(slow=True)}
    assert name_of(chosen("m", [A, B], health, {"b": 1}, trickle=True)) == "a"
    assert name_of(chosen("m", [A, B], health, {"a": 1, "b": 3}, trickle=True)) == "b"


def test_among_equally_loaded_ones_the_faster_is_chosen() -> None:
    health = {"a": EndpointHealth(pace=1.2), "b": EndpointHealth(pace=0.8)}
    assert name_of(chosen("m", [A, B], health, {})) == "b"
    assert name_of(chosen("m", [A, B], health, {"b": 1})) == "a"


@pytest.mark.parametrize("health", [EndpointHealth(refusals=1), EndpointHealth(openings=2)])
def test_who_was_away_gets_one_request_until_it_has_answered_one(health: EndpointHealth) -> None:
    assert name_of(chosen("m", [A], {"a": health}, {})) == "a"
    assert chosen("m", [A], {"a": health}, {"a": 1}) is None


SPARE = replace(an_endpoint("spare"), role=BACKUP)
SMALL = replace(an_endpoint("small", models=("mini",)), role=DEGRADED, stands_in_for=("m", "other"))
ALL = [SMALL, SPARE, A, B]


def test_who_spoils_one_model_is_left_alone_with_that_one_only() -> None:
    both = an_endpoint("both", models=("m", "n"))
    health = {"both": replace(OPEN, openings=1, spoils="m")}
    assert chosen("m", [both], health, {}) is None
    assert name_of(chosen("n", [both], health, {"both": 7})) == "both"
    assert not usable("m", [both], health)
    assert (health["both"].is_dead, OPEN.is_dead) == (False, True)
    assert chosen("n", [both], {"both": OPEN}, {}) is None


def test_roles_come_in_the_order_asked_for_whatever_their_load() -> None:
    roles = (PRIMARY, BACKUP, DEGRADED)
    full = {"a": 8, "b": 4}
    assert name_of(chosen("m", ALL, {}, {"a": 7, "b": 4}, roles=roles)) == "a"
    assert name_of(chosen("m", ALL, {}, full, roles=roles)) == "spare"
    assert chosen("m", ALL, {}, full | {"spare": 8}, roles=roles) == Choice(SMALL, "mini")
    assert chosen("m", ALL, {}, full) is None


def test_a_degraded_endpoint_answers_with_its_own_model_only_for_those_it_stands_in_for() -> None:
    assert chosen("n", ALL, {}, {}, roles=(DEGRADED,)) is None
    assert chosen("mini", ALL, {}, {}, roles=(DEGRADED,)) == Choice(SMALL, "mini")
    assert Choice(SMALL, "mini").role == DEGRADED


def test_batch_goes_to_a_worse_role_only_while_no_better_one_is_usable() -> None:
    down = {"a": OPEN, "b": EndpointHealth(draining=True)}
    assert batch_roles(Failover.DEGRADED, "m", ALL, {}) == (PRIMARY,)
    assert batch_roles(Failover.WAIT, "m", ALL, down) == (PRIMARY,)
    assert batch_roles(Failover.BACKUP, "m", ALL, down) == (BACKUP,)
    assert batch_roles(Failover.BACKUP, "m", ALL, down | {"spare": OPEN}) == (PRIMARY,)
    assert batch_roles(Failover.DEGRADED, "m", ALL, down | {"spare": OPEN}) == (DEGRADED,)


COOLS = EndpointHealth(cooling=True, refusals=1)
WANTS_MONEY = EndpointHealth(cooling=True, refusals=1, wants_person=True)


@pytest.mark.parametrize(
    ("failover", "b", "does"),
    [
        (Failover.WAIT, EndpointHealth(), True),
        (Failover.WAIT, COOLS, True),
        (Failover.WAIT, WANTS_MONEY, False),
        (Failover.WAIT, EndpointHealth(wants_person=True), True),  # Its minute is over.
        (Failover.WAIT, EndpointHealth(draining=True), False),
        (Failover.WAIT, OPEN, False),
        (Failover.BACKUP, OPEN, True),
    ],
)
def test_a_job_goes_on_where_another_endpoint_is_there_or_merely_cools_down(
    failover: Failover, b: EndpointHealth, does: bool
) -> None:
    assert another_does(failover, "m", "a", ALL, {"b": b}) is does


def test_a_backup_is_no_way_out_for_a_job_that_waits_for_primaries() -> None:
    assert not another_does(Failover.WAIT, "m", "a", [A, SPARE], {})
    assert another_does(Failover.BACKUP, "m", "a", [A, SPARE], {"spare": COOLS})


def test_a_model_that_no_primary_serves_is_a_backups_own() -> None:
    assert batch_roles(Failover.WAIT, "m", [SPARE, SMALL], {}) == (BACKUP,)


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "small", "spare"]),
        st.builds(
            EndpointHealth,
            cooling=st.booleans(),
            refusals=st.integers(0, 2),
            breaker=st.sampled_from(list(Breaker)),
            openings=st.integers(0, 2),
            spoils=st.sampled_from([None, "m", "n"]),
            draining=st.booleans(),
            slow=st.booleans(),
            pace=st.none() | st.floats(0.01, 100),
        ),
    ),
    st.dictionaries(st.sampled_from(["a", "b", "small", "spare"]), st.integers(0, 9)),
    st.booleans(),
)
def test_nobody_is_ever_chosen_who_is_full_or_away(
    health: dict[str, EndpointHealth], in_flight: dict[str, int], trickle: bool
) -> None:
    roles = (PRIMARY, BACKUP, DEGRADED)
    choice = chosen("m", ALL, health, in_flight, roles=roles, trickle=trickle)
    if choice is None:
        return
    name = choice.spec.name
    assert health.get(name, EndpointHealth()).usable(choice.model)
    assert in_flight.get(name, 0) < choice.spec.max_concurrency


def test_the_word_for_an_endpoint_is_the_one_that_matters_most() -> None:
    worst = EndpointHealth(cooling=True, breaker=Breaker.HALF_OPEN, draining=True, slow=True)
    better = [
        worst,
        replace(worst, draining=False),
        replace(worst, draining=False, breaker=Breaker.CLOSED),
        EndpointHealth(slow=True),
        EndpointHealth(),
    ]
    assert [health.word for health in better] == ["draining", "half-open", "cooling", "slow", "ok"]
