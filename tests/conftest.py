"""Real servers for the tests: one Postgres and one Valkey a session, a fresh database a test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import pytest

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server for the session: postgresql://…/giveway, with pgvector."""
    from app.local.bare import embedded_postgres_at

    with embedded_postgres_at(tmp_path_factory.mktemp("postgres")) as url:
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
    import psycopg

    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE vector_template STRATEGY wal_log")
        yield _with_database(postgres_url, name)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def broker_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Valkey for the session: redis://…"""
    from app.local.bare import embedded_valkey_at

    with embedded_valkey_at(tmp_path_factory.mktemp("valkey")) as url:
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
