"""Real workers on real services."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import Processes
from tests.served import Served


@pytest.fixture
def processes(
    tmp_path: Path, migrated_url: str, fresh_broker_url: str, endpoint: Served
) -> Iterator[Processes]:
    """Starts Celery processes; ends them after the test."""
    one = Processes(tmp_path, migrated_url, fresh_broker_url, endpoint.url)
    yield one
    one.end()
