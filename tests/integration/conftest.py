"""An endpoint that costs almost no time, and rigs on a database of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.rig import MakeRig, Rig
from tests.served import Served, serving


@pytest.fixture(scope="session")
def quick_server() -> Iterator[Served]:
    """An endpoint that costs almost no time."""
    with serving("--places", "32", "--speed", "50", "--ledger") as served:
        yield served


@pytest.fixture
def endpoint(quick_server: Served) -> Iterator[Served]:
    """The quick endpoint, without faults and with an empty ledger."""
    quick_server.calm()
    yield quick_server
    quick_server.calm()


@pytest.fixture
def rig(migrated_url: str, endpoint: Served) -> Iterator[MakeRig]:
    """Makes rigs on this test's database: several stand for several processes."""
    made: list[Rig] = []

    def make(**settings: Any) -> Rig:
        one = Rig(migrated_url, endpoint, **settings)
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()
