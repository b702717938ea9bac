"""Which endpoint gets the next request."""

from __future__ import annotations

from app.domain.routing import EndpointHealth, EndpointSpec, chosen, serving


def an_endpoint(name: str, places: int = 8, models: tuple[str, ...] = ("m",)) -> EndpointSpec:
    return EndpointSpec(name, "main", "vllm", f"http://{name}/v1", models, places)


A, B = an_endpoint("a"), an_endpoint("b", places=4)


def test_the_least_loaded_by_share_of_its_places_is_chosen() -> None:
    assert chosen("m", [A, B], {}, {"a": 3, "b": 1}) == B
    assert chosen("m", [A, B], {}, {"a": 3, "b": 2}) == A


def test_among_equals_the_first_declared_is_chosen() -> None:
    assert chosen("m", [A, B], {}, {}) == A


def test_a_full_a_cooling_and_a_wrong_one_are_never_chosen() -> None:
    other = an_endpoint("c", models=("n",))
    assert chosen("m", [A, B, other], {"a": EndpointHealth(cooling=True)}, {"b": 4}) is None
    assert serving("n", [A, B, other]) == [other]
