"""`stack.json`: what runs on a data folder, and how to reach it. Mode 0600: it holds passwords."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from app.errors import ConfigError
from app.local.leftovers import Birth, process_of

VERSION = 1
FILE = "stack.json"


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One process as the supervisor sees it."""

    name: str
    state: str
    """waiting, starting, running, restarting, done, stopping or stopped."""
    birth: Birth | None
    """None while it has no process."""
    restarts: int


@dataclass(frozen=True, slots=True)
class Addresses:
    """How to reach what the stack runs or uses; passwords included, except Flower's."""

    database_url: str | None = None
    broker_url: str | None = None
    flower_url: str | None = None
    flower_user: str | None = None
    flower_password_file: str | None = None
    """None where the password is in the settings."""
    endpoint_url: str | None = None
    """The simulated endpoint; None where others are configured."""


@dataclass(frozen=True, slots=True)
class StackState:
    """All of it."""

    data: str
    config: str | None
    supervisor: Birth
    ready: bool
    """Whether everything has been up since the start or the last reload."""
    processes: tuple[ProcessState, ...] = ()
    addresses: Addresses = Addresses()
    environment: Mapping[str, str] = field(default_factory=dict)
    """The GIVEWAY_ variables that every process of the stack gets."""
    reloads: int = 0
    """How often it was asked to take up the settings anew."""
    refused: str | None = None
    """Why the last time came to nothing; None: it did not."""


def write_state(data: Path, state: StackState) -> None:
    """Replace the file as a whole: a reader sees the old one or the new one."""
    beside = data / f".{FILE}.{os.getpid()}"
    descriptor = os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"version": VERSION, **asdict(state)}, file, indent=1)
    beside.replace(data / FILE)


def read_state(data: Path) -> StackState | None:
    """What the file says, true or not any more; None if there is none."""
    path = data / FILE
    try:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if raw.pop("version", None) != VERSION:
        raise ConfigError(f"{path} was written by another version of Giveway; stop that stack")
    return StackState(
        data=raw["data"],
        config=raw["config"],
        supervisor=Birth(**raw["supervisor"]),
        ready=raw["ready"],
        processes=tuple(_process(entry) for entry in raw["processes"]),
        addresses=Addresses(**raw["addresses"]),
        environment=raw["environment"],
        reloads=raw.get("reloads", 0),
        refused=raw.get("refused"),
    )


def running_state(data: Path) -> StackState | None:
    """The state of the stack that runs on this folder now; None if none does."""
    state = read_state(data)
    if state is None or process_of(state.supervisor) is None:
        return None
    return state


def environment_of(data: Path) -> dict[str, str] | None:
    """The GIVEWAY_ variables of the stack that runs here; None if none does.

    For `settings.load(config, beneath=environment_of(data))`.
    """
    state = running_state(data)
    return dict(state.environment) if state else None


def forget_state(data: Path) -> None:
    """Nothing runs here any more."""
    (data / FILE).unlink(missing_ok=True)


def _process(raw: dict[str, Any]) -> ProcessState:
    birth = raw.pop("birth")
    return ProcessState(**raw, birth=Birth(**birth) if birth else None)
