"""What `giveway --help` says, and that it says so quickly."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from app.cli.main import PANELS, build
from tests.commands import giveway

HEAVY = ("sqlalchemy", "psycopg", "celery", "kombu", "numpy", "pydantic", "httpx2", "uvicorn")
ALONE = {"up", "down", "restart", "status", "demo", "simulate", "simulated-endpoint", "config"}
"""Commands that need no wiring, or are told about it in their own way."""
WITHOUT_JSON = {("metrics",), ("scaling", "agent"), ("scaling", "join")}
"""Commands that run until they are stopped, or write what Prometheus reads."""


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


ALL = dict(_commands(typer.main.get_command(build())))


def test_help_shows_every_command_under_a_heading_in_the_order_of_a_first_day() -> None:
    said = giveway("--help").out
    at = [said.index(f"─ {panel} ─") for panel in PANELS]

    assert at == sorted(at)
    assert "─ Commands ─" not in said
    for path, command in ALL.items():
        assert f"│ {path[0]} " in said or command.hidden


def test_no_arguments_show_the_help() -> None:
    assert "The stack" in giveway().out + giveway().err


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom app.cli.main import main\nsys.argv = ['giveway', '--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stderr.strip() == "[]"


def test_the_version_is_said() -> None:
    assert giveway("--version").out.startswith("giveway 0.")


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_a_command_says_what_it_is_for(path: tuple[str, ...]) -> None:
    ran = giveway(*path, "--help")

    assert ran.code == 0
    assert len((ALL[path].help or "").split()) > 3


@pytest.mark.parametrize("path", [p for p in ALL if p[0] not in ALONE], ids=" ".join)
def test_a_command_takes_json_config_and_data(path: tuple[str, ...]) -> None:
    taken = {option for parameter in ALL[path].params for option in parameter.opts}

    wanted = {"--config", "--data"} | (set() if path in WITHOUT_JSON else {"--json"})
    assert wanted <= taken
