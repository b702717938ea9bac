"""Endpoints and stacks for the stories. RabbitMQ where it is installed.

A stack takes ten seconds to start and most of two cores. So stories share one (`shared`) with keys
and collections of their own; what differs in its settings has its own (`stack`). Both begin with a
copy of a data folder whose database is made and migrated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.acceptance.stack import Stack
from tests.rabbitmq import rabbitmq_at, rabbitmq_missing
from tests.served import Served, serving

MakeStack = Callable[..., Stack]


@pytest.fixture(scope="module")
def engine() -> Iterator[Served]:
    """An endpoint of 8 places that counts every input."""
    with serving("--places", "8", "--ledger") as served:
        yield served


@pytest.fixture(autouse=True)
def _calm(request: pytest.FixtureRequest) -> None:
    """Each story begins without faults and with an empty ledger."""
    if "engine" in request.fixturenames:
        request.getfixturevalue("engine").calm()


@pytest.fixture(scope="session")
def prepared() -> Iterator[Path]:
    """A data folder with a database that is made and migrated, and nothing running on it."""
    from app.local import background
    from app.local.options import MIGRATIONS, POSTGRES, StackOptions

    with TemporaryDirectory(prefix="giveway-", ignore_cleanup_errors=True) as folder:
        data = Path(folder).resolve() / "data"
        background.start(StackOptions(data, only=(POSTGRES, MIGRATIONS)))
        background.stop(data)
        yield data


@pytest.fixture(scope="module")
def stacks(engine: Served, prepared: Path) -> Iterator[MakeStack]:
    """Starts stacks that last until the end of the module."""
    with _stacks(engine, prepared) as make:
        yield make


@pytest.fixture
def stack(engine: Served, prepared: Path) -> Iterator[MakeStack]:
    """Starts stacks; whatever a test leaves running is stopped."""
    with _stacks(engine, prepared) as make:
        yield make


@contextmanager
def _stacks(engine: Served, prepared: Path) -> Iterator[MakeStack]:
    with ExitStack() as cleanup:

        def make(*, up: bool = True, **more: Any) -> Stack:
            folder = Path(cleanup.enter_context(temporary_folder()))
            one = Stack(folder, engine, prepared, **more)
            cleanup.callback(one.down)
            if up:
                one.up()
            return one

        yield make


def temporary_folder() -> TemporaryDirectory[str]:
    """A folder for a stack; what a server still writes as it ends is no failure."""
    return TemporaryDirectory(prefix="giveway-", ignore_cleanup_errors=True)


@pytest.fixture(scope="module")
def shared(stacks: MakeStack) -> Stack:
    """The stack that the stories of a module share."""
    return stacks()


@pytest.fixture(scope="session")
def rabbitmq_url() -> Iterator[str]:
    """amqp://… of a RabbitMQ node of our own. Skipped with the reason where there is none."""
    missing = rabbitmq_missing()
    if missing:
        pytest.skip(missing)
    with TemporaryDirectory(prefix="giveway-rabbit-") as folder, rabbitmq_at(Path(folder)) as url:
        yield url
