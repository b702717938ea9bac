"""Real workers on real services."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.processes import Processes
from tests.rabbitmq import rabbitmq_at, rabbitmq_missing
from tests.served import Served

BROKERS = [
    "valkey",
    pytest.param(
        "rabbitmq",
        marks=[
            pytest.mark.rabbitmq,
            pytest.mark.skipif(rabbitmq_missing() is not None, reason="RabbitMQ is not installed"),
        ],
    ),
]


@pytest.fixture
def processes(
    tmp_path: Path, migrated_url: str, fresh_broker_url: str, endpoint: Served
) -> Iterator[Processes]:
    """Starts Celery processes; ends them after the test."""
    one = Processes(tmp_path, migrated_url, fresh_broker_url, endpoint.url)
    yield one
    one.end()


@pytest.fixture(scope="module")
def rabbitmq_url() -> Iterator[Callable[[], str]]:
    """A node for this module, started by the first who asks for it."""
    started: list[str] = []
    with ExitStack() as stack:

        def start() -> str:
            if not started:
                folder = stack.enter_context(
                    TemporaryDirectory(prefix="giveway-", ignore_cleanup_errors=True)
                )
                started.append(stack.enter_context(rabbitmq_at(Path(folder).resolve())))
            return started[0]

        yield start


@pytest.fixture
def stack(
    request: pytest.FixtureRequest,
    rabbitmq_url: Callable[[], str],
    tmp_path: Path,
    migrated_url: str,
    endpoint: Served,
) -> Iterator[Processes]:
    """Processes on the broker that the test names, and an endpoint with a single place."""
    is_valkey = request.param == "valkey"
    url = request.getfixturevalue("fresh_broker_url") if is_valkey else rabbitmq_url()
    one = Processes(tmp_path, migrated_url, url, endpoint.url)
    places = json.loads(one.environment["GIVEWAY_ENDPOINTS"])
    places[0]["max_concurrency"] = 1
    one.environment["GIVEWAY_ENDPOINTS"] = json.dumps(places)
    yield one
    one.end()
