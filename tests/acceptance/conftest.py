"""Endpoints and stacks for the stories. RabbitMQ where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.acceptance.stack import Stack
from tests.rabbitmq import rabbitmq_at, rabbitmq_missing
from tests.served import Served, serving

MakeStack = Callable[..., Stack]


@pytest.fixture
def engine() -> Iterator[Served]:
    """An endpoint of 8 places that counts every input."""
    with serving("--places", "8", "--ledger") as served:
        yield served


@pytest.fixture
def stack(engine: Served) -> Iterator[MakeStack]:
    """Starts stacks; whatever a test leaves running is stopped."""
    with ExitStack() as cleanup:

        def make(**more: Any) -> Stack:
            folder = Path(cleanup.enter_context(TemporaryDirectory(prefix="giveway-")))
            one = Stack(folder, engine, **more)
            cleanup.callback(one.down)
            one.up()
            return one

        yield make


@pytest.fixture(scope="session")
def rabbitmq_url() -> Iterator[str]:
    """amqp://… of a RabbitMQ node of our own. Skipped with the reason where there is none."""
    missing = rabbitmq_missing()
    if missing:
        pytest.skip(missing)
    with TemporaryDirectory(prefix="giveway-rabbit-") as folder, rabbitmq_at(Path(folder)) as url:
        yield url


@pytest.fixture(params=["valkey", pytest.param("rabbitmq", marks=pytest.mark.rabbitmq)])
def broker(request: pytest.FixtureRequest) -> dict[str, str]:
    """The environment that chooses a broker: the embedded one, or RabbitMQ."""
    if request.param == "valkey":
        return {}
    return {"GIVEWAY_BROKER__URL": request.getfixturevalue("rabbitmq_url")}
