"""Which processes a stack has, in what order, and what each is told: a function of values."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from app.local import postgres, tidying, valkey
from app.local.choices import Choices, FlowerChoice
from app.local.options import (
    BATCH,
    BEAT,
    CONTROL,
    FLOWER,
    INTERACTIVE,
    MIGRATIONS,
    POSTGRES,
    SIMULATED,
    StackOptions,
)
from app.local.ports import HOST, answers
from app.local.spec import ProcessSpec
from app.local.state import Addresses
from app.settings import Settings

_CONTROL_THREADS = 4
_MODELS = ("fake-chat", "fake-embed")


@dataclass(frozen=True, slots=True)
class StackPlan:
    """The processes in the order of their start, how to reach them, and what each is told."""

    specs: tuple[ProcessSpec, ...]
    addresses: Addresses
    environment: Mapping[str, str]


def plan(settings: Settings, options: StackOptions, choices: Choices) -> StackPlan:
    """The stack for these settings. No effect: nothing is made or started yet."""
    addresses = _addresses(settings, choices)
    environment = _environment(settings, options, choices, addresses)
    specs: list[ProcessSpec] = []
    if choices.postgres is not None:
        specs.append(postgres.spec(choices.postgres))
    if choices.valkey is not None:
        specs.append(valkey.spec(choices.valkey))
    base = partial(ProcessSpec, cwd=choices.cwd, env=environment)
    if options.wants(MIGRATIONS):
        specs.append(
            base(
                name=MIGRATIONS,
                argv=_python("app.cli.main", "db", "upgrade"),
                after=(POSTGRES,) if choices.postgres else (),
                once=True,
            )
        )
    after = tuple(spec.name for spec in specs)
    if choices.endpoint_port is not None:
        specs.append(_simulated(settings, choices.endpoint_port, choices.cwd, environment))
    for name, threads in (
        (INTERACTIVE, settings.interactive_threads),
        (BATCH, settings.batch_threads),
        (CONTROL, _CONTROL_THREADS),
    ):
        if options.wants(name):
            node = f"{name}@giveway-{stack_id(choices.data)}"
            specs.append(
                base(
                    name=name,
                    argv=_worker(name, node, threads),
                    after=after,
                    ready_line=r"@\S+ ready\.",
                    ready_timeout_s=60.0,
                )
            )
    if options.wants(BEAT):
        specs.append(_beat(choices, environment, after))
    if choices.flower is not None:
        specs.append(_flower(choices, choices.flower, environment, after))
    return StackPlan(tuple(specs), addresses, environment)


def stack_id(data: Path) -> str:
    """Six digits that tell stacks apart and stay the same over restarts."""
    return hashlib.sha256(str(data.resolve()).encode()).hexdigest()[:6]


def _python(module: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", module, *arguments)


def _worker(queue: str, node: str, threads: int) -> tuple[str, ...]:
    """Heartbeats stay on, since Flower needs them; mingling and gossip only cost a start."""
    who = ("-Q", queue, "-n", node, "-P", "threads", "-c", str(threads))
    how = ("-E", "--without-mingle", "--without-gossip", "--loglevel", "INFO")
    return _python("celery", "-A", "app", "worker", *who, *how)


def _simulated(
    settings: Settings, port: int, cwd: Path, environment: Mapping[str, str]
) -> ProcessSpec:
    places = str(settings.pools[0].total)
    return ProcessSpec(
        name=SIMULATED,
        argv=_python(
            "app.inference.simulated", "--host", HOST, "--port", str(port), "--places", places
        ),
        env=environment,
        cwd=cwd,
        ready=partial(answers, port),
        ready_timeout_s=60.0,
        stop_stage=1,
        stop_timeout_s=5.0,
    )


def _beat(choices: Choices, environment: Mapping[str, str], after: tuple[str, ...]) -> ProcessSpec:
    schedule = choices.data / BEAT / "schedule"
    flags = ("--schedule", str(schedule), "--pidfile", "", "--loglevel", "WARNING")
    return ProcessSpec(
        name=BEAT,
        argv=_python("celery", "-A", "app", "beat", *flags),
        env=environment,
        cwd=choices.cwd,
        after=after,
        prepare=partial(tidying.without_schedule, schedule),
        stop_stage=1,
        stop_timeout_s=5.0,
    )


def _flower(
    choices: Choices, flower: FlowerChoice, environment: Mapping[str, str], after: tuple[str, ...]
) -> ProcessSpec:
    history = choices.data / FLOWER / "flower.db"
    listening = (f"--address={flower.host}", f"--port={flower.port}")
    keeping = ("--persistent=True", f"--db={history}", "--state-save-interval=5000")
    return ProcessSpec(
        name=FLOWER,
        argv=_python("celery", "-A", "app", "flower", *listening, *keeping, "--max-tasks=10000"),
        # Not on the command line, which everybody on the machine can read.
        env={**environment, "FLOWER_BASIC_AUTH": f"{flower.user}:{flower.password}"},
        cwd=choices.cwd,
        after=after,
        prepare=partial(tidying.readable_history, history),
        ready=partial(answers, flower.port, _reachable(flower.host)),
        ready_timeout_s=60.0,
        stop_stage=1,
        stop_timeout_s=5.0,
    )


def _addresses(settings: Settings, choices: Choices) -> Addresses:
    flower, port = choices.flower, choices.endpoint_port
    database, broker = settings.database.url, settings.broker.url
    embedded_database = choices.postgres.url if choices.postgres else None
    embedded_broker = choices.valkey.url if choices.valkey else None
    password_file = flower.password_file if flower else None
    return Addresses(
        database_url=database.get_secret_value() if database else embedded_database,
        broker_url=broker.get_secret_value() if broker else embedded_broker,
        flower_url=f"http://{_reachable(flower.host)}:{flower.port}" if flower else None,
        flower_user=flower.user if flower else None,
        flower_password_file=str(password_file) if password_file else None,
        endpoint_url=f"http://{HOST}:{port}/v1" if port else None,
    )


def _environment(
    settings: Settings, options: StackOptions, choices: Choices, addresses: Addresses
) -> dict[str, str]:
    found = {
        "GIVEWAY_DATA": str(choices.data),
        "GIVEWAY_CONFIG": str(options.config.resolve()) if options.config else None,
        "GIVEWAY_DATABASE__URL": addresses.database_url,
        "GIVEWAY_BROKER__URL": addresses.broker_url,
        "GIVEWAY_ENDPOINTS": _endpoints(settings, addresses.endpoint_url),
    }
    return {name: value for name, value in found.items() if value is not None}


def _endpoints(settings: Settings, url: str | None) -> str | None:
    if url is None:
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


def _reachable(host: str) -> str:
    return HOST if host in ("", "0.0.0.0", "::") else host  # noqa: S104 -- compared, not bound
