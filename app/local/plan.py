"""Which processes a stack has, in what order, and what each is told: a function of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.local import commands, postgres, processes, told, valkey
from app.local.choices import Choices
from app.local.options import (
    BATCH,
    BEAT,
    CONTROL,
    INTERACTIVE,
    MIGRATIONS,
    POSTGRES,
    SCALING,
    VALKEY,
    WORKERS,
    StackOptions,
)
from app.local.ports import HOST
from app.local.spec import ProcessSpec
from app.local.state import Addresses
from app.settings import Settings


@dataclass(frozen=True, slots=True)
class StackPlan:
    """The processes in the order of their start, how to reach them, and what each is told."""

    specs: tuple[ProcessSpec, ...]
    addresses: Addresses
    environment: Mapping[str, str]


_ANEW = (MIGRATIONS, *WORKERS, BEAT, SCALING)
"""What reads the settings as it starts."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a reload does: these are started `anew`, and those called so are `gone`."""

    anew: tuple[ProcessSpec, ...] = ()
    gone: tuple[str, ...] = ()


def change(before: StackPlan, after: StackPlan) -> Change:
    """Which processes are started anew where the settings have changed so: those that read them,
    and those whose command or environment is another. The servers that keep things stay."""
    known = {spec.name: spec for spec in before.specs}
    wanted = {spec.name for spec in after.specs}
    anew = tuple(
        spec
        for spec in after.specs
        if spec.name not in (POSTGRES, VALKEY)
        and (
            spec.name in _ANEW
            or spec.name not in known
            or (spec.argv, spec.env) != (known[spec.name].argv, known[spec.name].env)
        )
    )
    return Change(anew, tuple(name for name in known if name not in wanted))


def plan(settings: Settings, options: StackOptions, choices: Choices) -> StackPlan:
    """The stack for these settings. No effect: nothing is made or started yet."""
    addresses = told.addresses(settings, choices)
    environment = told.environment(settings, options, choices, addresses)
    specs: list[ProcessSpec] = []
    if choices.postgres is not None:
        specs.append(postgres.spec(choices.postgres))
    if choices.valkey is not None:
        specs.append(valkey.spec(choices.valkey))
    if options.wants(MIGRATIONS):
        database = (POSTGRES,) if choices.postgres else ()
        specs.append(processes.migrations(choices, environment, database))
    after = tuple(spec.name for spec in specs)
    if choices.endpoint_port is not None:
        port, places = choices.endpoint_port, settings.pools[0].total
        models = told.simulated_models(settings)
        command = commands.simulated(HOST, port, places, models, options.endpoint_speed)
        specs.append(processes.simulated(choices, environment, port, command))
    for queue, threads, many in (
        (INTERACTIVE, settings.interactive_threads, settings.interactive_processes),
        (BATCH, settings.batch_threads, 1),
        (CONTROL, settings.control_threads, 1),
    ):
        if options.wants(queue):
            specs += [
                processes.worker(
                    choices, environment, after, queue=queue, threads=threads, number=number
                )
                for number in range(1, many + 1)
            ]
    if options.wants(SCALING) and any(one.target == "process" for one in settings.scaling):
        specs.append(processes.scaling(choices, environment, after))
    # These two need no table, so they come up while the database is still being made.
    broker = (VALKEY,) if choices.valkey else ()
    if options.wants(BEAT):
        specs.append(processes.beat(choices, environment, broker))
    if choices.flower is not None:
        specs.append(processes.flower(choices, choices.flower, environment, broker))
    return StackPlan(tuple(specs), addresses, environment)
