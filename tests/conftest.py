"""Real servers for the tests: one Postgres and one Valkey a session, a fresh database a test."""

from __future__ import annotations

import fcntl
import gc
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.times import RABBITMQ_S, on_rabbitmq, seconds_of

_numbers = itertools.count(1)

_MEASURES = (
    "tests/acceptance/test_many_endpoints.py",
    "tests/acceptance/test_measures.py",
    "tests/integration/services/test_calibration.py",
)
"""People's latency or an endpoint's time is what they look at: nothing else runs beside them."""

_TOGETHER = (
    "tests/acceptance/test_story.py",
    "tests/acceptance/test_survival.py",
    "tests/acceptance/test_faults.py",
    "tests/integration/local/test_whole_stack.py",
)
"""Files whose tests share a stack, and so a process."""

_LONG_S = 30.0


def _scope(test: str) -> str:
    """What is run in one process without a break; `test` is its id."""
    file = test.partition("::")[0]
    if file in _MEASURES:
        return "measures"
    if on_rabbitmq(test):
        return "rabbitmq"  # One node for all of them.
    if file in _TOGETHER or seconds_of(file) < _LONG_S:
        return file
    return test


def _order(test: str) -> tuple[bool, float]:
    """What takes longest comes first, and at the end what wants quiet."""
    scope = _scope(test)
    return scope == "measures", -(RABBITMQ_S if scope == "rabbitmq" else seconds_of(test))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what measures, and what no coverage is counted of; put all in order."""
    for item in items:
        if item.nodeid.startswith(_MEASURES):
            item.add_marker(pytest.mark.alone)
        if item.nodeid.startswith("tests/acceptance/"):
            item.add_marker(pytest.mark.no_cover)  # What it tries runs in other processes.
    items.sort(key=lambda item: _order(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Processes take what is next: a file at a time, the tests of a long one apart. (Groups by
    mark, xdist's own way, do not work with pytest 9.2.)"""
    from xdist.scheduler import LoadScopeScheduling

    class Scopes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _scope(nodeid)

    config.option.loadscopereorder = False  # The longest come first.
    return Scopes(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A test marked `alone` waits for what the other processes run, and holds off their next."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    how = fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH
    here = Path(__file__)  # Two files that are there anyway, as the two locks.
    with here.with_name("__init__.py").open() as door, here.open() as room:
        fcntl.flock(door, how)  # Who waits for the whole room keeps the door shut meanwhile.
        fcntl.flock(room, how)
        if how == fcntl.LOCK_SH:
            fcntl.flock(door, fcntl.LOCK_UN)
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What a file's tests left open is found at its end, not beside somebody else's."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Not pytest's own: each session that starts closes those of all sessions of this user to other
    accounts, and as root Postgres runs under another account."""
    with TemporaryDirectory(prefix="giveway-", ignore_cleanup_errors=True) as path:
        yield Path(path).resolve()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A temporary folder that a server's data may be kept in."""
    with _temporary_folder() as path:
        yield path


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A server for the session: postgresql://…/giveway, with pgvector."""
    from app.local.bare import embedded_postgres_at

    with _temporary_folder() as path, embedded_postgres_at(path) as url:
        yield url


@pytest.fixture(scope="session")
def template_url(postgres_url: str) -> str:
    """A database with the vector extension that nobody is connected to, to be copied."""
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("CREATE DATABASE vector_template TEMPLATE template0")
    url = _with_database(postgres_url, "vector_template")
    with psycopg.connect(url, autocommit=True) as own:
        own.execute("CREATE EXTENSION vector")
    return url


@pytest.fixture
def database_url(postgres_url: str, template_url: str) -> Iterator[str]:
    """A fresh, empty database with the vector extension, dropped after the test."""
    with _copied(postgres_url, template_url) as url:
        yield url


@pytest.fixture(scope="session")
def migrated_template_url(postgres_url: str, template_url: str) -> Iterator[str]:
    """A database at the newest revision that nobody is connected to, to be copied."""
    from app.storage import schema
    from app.storage.database import Database

    with _copied(postgres_url, template_url) as url:
        database = Database(url)
        schema.upgrade(database)
        database.close()
        yield url


@pytest.fixture
def migrated_url(postgres_url: str, migrated_template_url: str) -> Iterator[str]:
    """A database with our tables, empty, dropped after the test."""
    with _copied(postgres_url, migrated_template_url) as url:
        yield url


@contextmanager
def _copied(postgres_url: str, template_url: str) -> Iterator[str]:
    import psycopg

    name, template = f"test_{next(_numbers)}", urlsplit(template_url).path.lstrip("/")
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY wal_log")
        yield _with_database(postgres_url, name)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def broker_url() -> Iterator[str]:
    """A Valkey for the session: redis://…"""
    from app.local.bare import embedded_valkey_at

    with _temporary_folder() as path, embedded_valkey_at(path) as url:
        yield url


@pytest.fixture
def fresh_broker_url(broker_url: str) -> str:
    """The session's Valkey, emptied."""
    import redis

    with redis.Redis.from_url(broker_url) as client:
        client.flushall()
    return broker_url


def _with_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
