"""What runs: Postgres, the broker, the workers, Flower."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr, field_validator

from app.settings.group import Count, Group, Positive

_DATABASE_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
_BROKER_SCHEMES = ("redis", "rediss", "amqp", "amqps", "pyamqp")


class DatabaseSettings(Group):
    """`[database]`: where the jobs live."""

    url: SecretStr | None = None
    """postgresql://user:password@host:port/name. None: the embedded Postgres of `giveway up`."""
    connections: Count | None = None
    """Most connections of one process. None: derived from its concurrency."""
    statement_timeout_s: Positive = 30.0

    def connections_of(self, threads: int) -> int:
        """Most connections of a process of so many threads."""
        return self.connections or min(threads + 2, 40)

    @field_validator("url")
    @classmethod
    def _postgres_only(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and url.get_secret_value().split("://")[0] not in _DATABASE_SCHEMES:
            raise ValueError("must begin with postgresql://; Giveway keeps its jobs in Postgres")
        if url is not None and "@" in url.get_secret_value().partition("@")[2].partition("?")[0]:
            raise ValueError("has more than one @; write one in a password as %40, and / as %2F")
        return url


class BrokerSettings(Group):
    """`[broker]`: who carries doorbells and interactive requests."""

    url: SecretStr | None = None
    """redis://… (Redis or Valkey) or amqp://… (RabbitMQ). None: the embedded Valkey."""
    result_url: SecretStr | None = None
    """Where Celery keeps interactive results. None: the broker itself (rpc:// on RabbitMQ)."""
    connect_timeout_s: Positive = 0.5
    publish_timeout_s: Positive = 1.0
    """How long one message may take to be handed over: a broker that is frozen, or behind a dead
    line, takes none and says nothing."""

    @field_validator("url")
    @classmethod
    def _known_transport(cls, url: SecretStr | None) -> SecretStr | None:
        if url is None:
            return url
        scheme = url.get_secret_value().split("://")[0]
        if scheme in ("valkey", "valkeys"):
            right = scheme.replace("valkey", "redis")
            raise ValueError(f"kombu has no {scheme}:// transport; write {right}:// for Valkey")
        if scheme not in _BROKER_SCHEMES:
            raise ValueError("must begin with redis://, rediss://, amqp:// or amqps://")
        return url


class WorkerSettings(Group):
    """`[worker]`: how many things one process does at once."""

    batch_concurrency: Count | None = None
    """Threads of a batch worker. None: the sum of every pool's batch_max, of the places that
    scaling may add, and of batch_headroom."""
    batch_headroom: Annotated[int, Field(ge=0)] = 32
    """Places of endpoints that join at run time which a batch worker can use without a restart. A
    thread is made when there is work for it."""
    interactive_concurrency: Count | None = None
    """Threads of an interactive worker. None: four times the sum of the pools' totals, at least 32
    and at most 128."""
    shared: bool = False
    """Let one worker take several queues. It alternates between them, so people wait for batch."""


class FlowerSettings(Group):
    """`[flower]`: the window on the workers. It never runs without a password."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """0: a free port is chosen."""
    user: str = "giveway"
    password: SecretStr | None = None
    """None: made by `giveway up` and kept in the data folder."""
    broker_api: SecretStr | None = None
    """Where RabbitMQ's management answers, for the lengths of its queues:
    http://user:password@host:15672/api/. None: port 15672 of the broker, as its user."""
