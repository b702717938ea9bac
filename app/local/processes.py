"""The processes of ours that a stack has: their commands, and when each counts as ready."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial

from app.local import commands, tidying
from app.local.choices import Choices, FlowerChoice
from app.local.options import BEAT, FLOWER, MIGRATIONS, SCALING, SIMULATED
from app.local.ports import answers
from app.local.spec import ProcessSpec
from app.local.told import reachable

# Celery warns of root since it once took pickles; this one takes JSON only.
_AS_ROOT = "ignore:You're running the worker with superuser privileges"

Environment = Mapping[str, str]


def migrations(choices: Choices, told: Environment, after: tuple[str, ...]) -> ProcessSpec:
    """One step: the tables as this version knows them."""
    return ProcessSpec(
        name=MIGRATIONS,
        argv=_python(commands.migrations()),
        env=told,
        cwd=choices.cwd,
        after=after,
        once=True,
    )


def simulated(
    choices: Choices, told: Environment, port: int, command: commands.Command
) -> ProcessSpec:
    """The simulated endpoint, which listens on `port`."""
    return ProcessSpec(
        name=SIMULATED,
        argv=_python(command),
        env=told,
        cwd=choices.cwd,
        ready=partial(answers, port),
        ready_timeout_s=60.0,
        stop_stage=1,
        stop_timeout_s=5.0,
    )


def worker(
    choices: Choices,
    told: Environment,
    after: tuple[str, ...],
    *,
    queue: str,
    threads: int,
    number: int = 1,
) -> ProcessSpec:
    """A Celery worker for one queue, the `number`th of its kind, of the same name at each start."""
    name = queue if number == 1 else f"{queue}-{number}"
    node = f"{name}@giveway-{choices.stack_id}"
    return ProcessSpec(
        name=name,
        argv=_python(commands.worker(queue, node, threads)),
        env={**told, "PYTHONWARNINGS": _AS_ROOT},
        cwd=choices.cwd,
        after=after,
        ready_line=r"@\S+ ready\.",
        ready_timeout_s=60.0,
    )


def beat(choices: Choices, told: Environment, after: tuple[str, ...]) -> ProcessSpec:
    """Celery's clock. It only ticks, so it begins anew at each start."""
    schedule = choices.data / BEAT / "schedule"
    return ProcessSpec(
        name=BEAT,
        argv=_python(commands.beat(str(schedule))),
        env=told,
        cwd=choices.cwd,
        after=after,
        prepare=partial(tidying.without_schedule, schedule),
        stop_stage=1,
        stop_timeout_s=5.0,
    )


def scaling(choices: Choices, told: Environment, after: tuple[str, ...]) -> ProcessSpec:
    """The agent of automatic scaling. Its own processes die with it."""
    return ProcessSpec(
        name=SCALING,
        argv=_python(commands.scaling()),
        env=told,
        cwd=choices.cwd,
        after=after,
        ready_line=r"^scaling ",
        ready_timeout_s=60.0,
        # After the workers, who give back what they have: then nothing is in flight any more.
        stop_stage=1,
        stop_timeout_s=40.0,
    )


def flower(
    choices: Choices, choice: FlowerChoice, told: Environment, after: tuple[str, ...]
) -> ProcessSpec:
    """The window on the workers; its history is saved every fifteen seconds."""
    history = choices.data / FLOWER / "flower.db"
    return ProcessSpec(
        name=FLOWER,
        argv=_python(commands.flower(choice.host, choice.port, str(history))),
        # Not on the command line, which everybody on the machine can read.
        env={**told, **_secrets_of(choice)},
        cwd=choices.cwd,
        after=after,
        prepare=partial(tidying.readable_history, history),
        ready=partial(answers, choice.port, reachable(choice.host)),
        ready_timeout_s=60.0,
        stop_stage=1,
        stop_timeout_s=5.0,
    )


def _secrets_of(choice: FlowerChoice) -> dict[str, str]:
    api = {} if choice.broker_api is None else {"FLOWER_BROKER_API": choice.broker_api}
    return {"FLOWER_BASIC_AUTH": f"{choice.user}:{choice.password}", **api}


def _python(command: commands.Command) -> tuple[str, ...]:
    return (sys.executable, "-m", *command)
