"""What a stack tells its processes and its users: the environment and the addresses."""

from __future__ import annotations

import json

from app.local.choices import Choices
from app.local.options import SIMULATED, StackOptions
from app.local.ports import HOST
from app.local.state import Addresses
from app.settings import Settings

_MODELS = ("fake-chat", "fake-embed")


def simulated_models(settings: Settings) -> tuple[str, ...]:
    """What the simulated endpoint serves: the models declared for it, or its own two."""
    declared = (e.models for e in settings.endpoints if e.kind == SIMULATED)
    return tuple(model for models in declared for model in models) or _MODELS


def addresses(settings: Settings, choices: Choices) -> Addresses:
    """How to reach everything: what is embedded, and what the settings name."""
    flower, port = choices.flower, choices.endpoint_port
    database, broker = settings.database.url, settings.broker.url
    embedded_database = choices.postgres.url if choices.postgres else None
    embedded_broker = choices.valkey.url if choices.valkey else None
    password_file = flower.password_file if flower else None
    return Addresses(
        database_url=database.get_secret_value() if database else embedded_database,
        broker_url=broker.get_secret_value() if broker else embedded_broker,
        flower_url=f"http://{reachable(flower.host)}:{flower.port}" if flower else None,
        flower_user=flower.user if flower else None,
        flower_password_file=str(password_file) if password_file else None,
        endpoint_url=f"http://{HOST}:{port}/v1" if port else None,
    )


def environment(
    settings: Settings, options: StackOptions, choices: Choices, at: Addresses
) -> dict[str, str]:
    """The GIVEWAY_ variables of every process; with them `load` gives the stack's settings."""
    found = {
        "GIVEWAY_DATA": str(choices.data),
        "GIVEWAY_CONFIG": str(options.config.resolve()) if options.config else None,
        "GIVEWAY_DATABASE__URL": at.database_url,
        "GIVEWAY_BROKER__URL": at.broker_url,
        "GIVEWAY_ENDPOINTS": _endpoints(settings, at.endpoint_url),
    }
    return {name: value for name, value in found.items() if value is not None}


def _endpoints(settings: Settings, url: str | None) -> str | None:
    if url is None or settings.endpoints:
        return None
    pool = settings.pools[0]
    endpoint = {
        "name": SIMULATED,
        "kind": "simulated",
        "pool": pool.name,
        "base_url": url,
        "models": _MODELS,
        "max_concurrency": pool.total,
    }
    return json.dumps([endpoint])


def reachable(host: str) -> str:
    """An address that a client on this machine can use for a server that listens on `host`."""
    return HOST if host in ("", "0.0.0.0", "::") else host  # noqa: S104 -- compared, not bound
