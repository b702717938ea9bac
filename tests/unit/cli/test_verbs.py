"""What can be done by command can be done from Python, in the same words."""

from __future__ import annotations

from typing import Any

import pytest
import typer.main

from app.cli.main import build
from app.client import Collections, Endpoints, Giveway, JobHandle, Schedules, Throttle

ELSEWHERE = {
    "jobs list": Giveway.jobs,
    "jobs show": Giveway.job,
    "jobs watch": JobHandle.wait,
    "eval run": Giveway.evaluate,
    "eval show": Giveway.evaluation,
    "eval compare": Giveway.compare,
    "collections export": Collections.export,
}
"""Verbs whose method has another name, or is another object's."""
ON_A_TERMINAL = {
    "endpoints test": "prints what it tries, as it tries it",
    "throttle explain": "a sentence; `show` has the figures that it is made of",
    "throttle replay": "looks for faults of ours",
}
"""Verbs that stay with the command line, and why."""
GROUPS: dict[str, type] = {
    "jobs": JobHandle,
    "schedules": Schedules,
    "embeddings": Collections,
    "endpoints": Endpoints,
    "throttle": Throttle,
}
ALONE = {
    "submit": Giveway.submit,
    "ask": Giveway.ask,
    "search": Giveway.search,
    "results": JobHandle.export,
    "export": Collections.export,
    "report": Giveway.report,
}


def _commands() -> dict[str, Any]:
    found: Any = typer.main.get_command(build())
    return dict(found.commands)


@pytest.mark.parametrize("group", [*GROUPS, "eval", "collections"])
def test_each_verb_of_a_group_is_a_method(group: str) -> None:
    for verb in _commands()[group].commands:
        said = f"{group} {verb}"
        if said not in ON_A_TERMINAL and said not in ELSEWHERE:
            method = getattr(GROUPS[group], verb, None)
            assert callable(method), f"giveway {said} has no counterpart in Python"


def test_each_command_about_jobs_and_people_has_a_method() -> None:
    commands = _commands()
    assert ALONE.keys() <= commands.keys()
    exempt = {**ELSEWHERE, **ON_A_TERMINAL}
    there = {f"{group} {verb}" for group in commands for verb in _verbs(commands[group])}
    assert exempt.keys() <= there, "an exemption is for a verb that is there"


def _verbs(command: Any) -> list[str]:
    return list(getattr(command, "commands", {}))


@pytest.mark.parametrize("option", ["--dry-run", "--where", "--limit", "--budget", "--after"])
def test_every_command_that_makes_a_job_has_the_same_bounds(option: str) -> None:
    commands = _commands()
    makes = {**commands["submit"].commands, "eval run": commands["eval"].commands["run"]}
    assert {"embed", "evaluate", "generate", "summarize", "eval run"} <= makes.keys()
    for name, command in makes.items():
        flags = {flag for one in command.params for flag in one.opts}
        assert option in flags, f"giveway {name} lacks {option}"
