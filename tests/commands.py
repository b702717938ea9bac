"""`giveway …` in this process, as a person or a script sees it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from app.cli.main import build


@dataclass(frozen=True)
class Ran:
    """What a command left: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Standard output, which is one JSON document and nothing else."""
        found: dict[str, Any] = json.loads(self.out)
        return found


def giveway(*arguments: str, stdin: bytes | None = None) -> Ran:
    """Run it."""
    result = CliRunner().invoke(build(), list(arguments), input=stdin, prog_name="giveway")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def done(*arguments: str, stdin: bytes | None = None) -> dict[str, Any]:
    """The JSON document of a command that succeeds."""
    ran = giveway(*arguments, "--json", stdin=stdin)
    assert ran.code == 0, ran.err
    return ran.document
