"""What the machine decides about a stack: ports, passwords, where the servers are."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from app.errors import ConfigError
from app.local import ports, postgres, valkey
from app.local.options import (
    BEAT,
    FLOWER,
    MIGRATIONS,
    POSTGRES,
    SIMULATED,
    VALKEY,
    WORKERS,
    StackOptions,
)
from app.local.postgres import PostgresServer
from app.local.secrets import secret, secret_path
from app.local.valkey import ValkeyServer
from app.settings import Settings


@dataclass(frozen=True, slots=True)
class FlowerChoice:
    """Where Flower listens, and who may look."""

    host: str
    port: int
    user: str
    password: str
    password_file: Path | None
    """None: the password is in the settings."""
    broker_api: str | None = None
    """Where RabbitMQ's management answers; None: where it does by default."""


@dataclass(frozen=True, slots=True)
class Choices:
    """None for each part that is not started."""

    data: Path
    """Absolute."""
    cwd: Path
    postgres: PostgresServer | None
    valkey: ValkeyServer | None
    flower: FlowerChoice | None
    endpoint_port: int | None

    @property
    def stack_id(self) -> str:
        """Six digits that tell stacks apart and stay the same over restarts."""
        return hashlib.sha256(str(self.data).encode()).hexdigest()[:6]


def choose(settings: Settings, options: StackOptions) -> Choices:
    """Decide it now. UsageError for a port that is taken, MissingPart for a missing wheel."""
    data = options.data.resolve()
    needs_database = any(options.wants(name) for name in (*WORKERS, MIGRATIONS))
    needs_broker = any(options.wants(name) for name in (*WORKERS, BEAT, FLOWER))
    taken: list[int] = []

    def port(name: str, given: int | None) -> int:
        chosen = ports.choose(data, name, given, taken)
        taken.append(chosen)
        return chosen

    database = broker = endpoint = None
    if settings.database.url is None and (needs_database or options.wants(POSTGRES)):
        _required(options, POSTGRES, "database", "GIVEWAY_DATABASE__URL")
        database = postgres.postgres_server(data, port(POSTGRES, options.postgres_port))
    if settings.broker.url is None and (needs_broker or options.wants(VALKEY)):
        _required(options, VALKEY, "broker", "GIVEWAY_BROKER__URL")
        broker = valkey.valkey_server(data, port(VALKEY, options.valkey_port))
    if (options.simulate or not settings.endpoints) and options.wants(SIMULATED):
        endpoint = port(SIMULATED, options.endpoint_port)
    return Choices(
        data=data,
        cwd=Path.cwd(),
        postgres=database,
        valkey=broker,
        flower=_flower(settings, data, port(FLOWER, options.flower_port or settings.flower.port))
        if options.wants(FLOWER)
        else None,
        endpoint_port=endpoint,
    )


def rechoose(settings: Settings, options: StackOptions, before: Choices) -> Choices:
    """The same for a stack that runs with `before`: its servers and ports stay. ConfigError: the
    settings now want what only a stop and a start can give."""
    for name, server, url in (
        ("database", before.postgres, settings.database.url),
        ("broker", before.valkey, settings.broker.url),
    ):
        needed = url is None and (server is not None or not options.only)
        if needed != (server is not None):
            raise ConfigError(f"[{name}] url has come or gone; giveway down, then giveway up")
    wants_endpoint = (options.simulate or not settings.endpoints) and options.wants(SIMULATED)
    port = before.endpoint_port
    if wants_endpoint and port is None:
        port = ports.choose(before.data, SIMULATED, options.endpoint_port)
    return replace(
        before,
        endpoint_port=port if wants_endpoint else None,
        flower=before.flower and _flower(settings, before.data, before.flower.port),
    )


def _required(options: StackOptions, name: str, what: str, variable: str) -> None:
    if not options.wants(name):
        raise ConfigError(f"no {what}: add --only {name}, or set {variable}")


def _flower(settings: Settings, data: Path, port: int) -> FlowerChoice:
    given = settings.flower.password
    password = given.get_secret_value() if given else secret(data, FLOWER)
    if "," in password or "," in settings.flower.user or ":" in settings.flower.user:
        raise ConfigError("[flower] user and password: Flower takes no comma, and no colon in user")
    return FlowerChoice(
        host=settings.flower.host,
        port=port,
        user=settings.flower.user,
        password=password,
        password_file=None if given else secret_path(data, FLOWER),
        broker_api=api.get_secret_value() if (api := settings.flower.broker_api) else None,
    )
