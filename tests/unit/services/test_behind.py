"""What is stored beside the next call: in order, and nobody leaves before it is through."""

from __future__ import annotations

import threading

import pytest

from app.services.behind import behind


def test_a_store_runs_beside_and_what_it_gives_comes_with_the_wait() -> None:
    goes_on, told = threading.Event(), []

    def store() -> str:
        assert goes_on.wait(10)
        return "yielded"

    with behind(lambda: told.append(True)) as storing:
        assert storing.wait("before") == "before"
        storing.begin(store)
        assert told == []
        goes_on.set()
        assert (storing.wait(), told) == ("yielded", [True])
        assert storing.wait() is None


def test_nobody_leaves_before_the_store_is_through_whatever_ended_the_chunk() -> None:
    goes_on, stored = threading.Event(), []

    def store() -> None:
        assert goes_on.wait(10)
        stored.append(True)

    def die() -> None:
        with behind(lambda: None) as storing:
            storing.begin(store)
            threading.Timer(0.01, goes_on.set).start()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        die()
    assert stored == [True]


def test_what_a_store_meets_is_raised_where_it_is_waited_for() -> None:
    with behind(lambda: None) as storing:
        storing.begin(lambda: str(1 / 0))
        with pytest.raises(ZeroDivisionError):
            storing.wait()
        storing.begin(lambda: None)
        assert storing.wait() is None
