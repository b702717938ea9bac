"""Keeping: a `giveway submit …` that is written down for later instead of being run."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from app.errors import UsageError

if TYPE_CHECKING:
    from app.cli.parts.kind_commands import Common
    from app.services.templates import JobTemplate
    from app.wiring import Wiring


@dataclass(slots=True)
class Wanted:
    """Somebody who wants the template of a command instead of its job."""

    wiring: Wiring
    template: JobTemplate | None = None

    def keep(self, told: Common, template: JobTemplate) -> None:
        """Take the template. UsageError: an option that means nothing later."""
        for option, said in (
            ("--key", told.key),
            ("--wait", told.wait),
            ("--dry-run", told.dry_run),
            ("--json", told.as_json),
        ):
            if said:
                raise UsageError(f"{option} has no meaning in a command that is kept for later")
        self.template = template.kept(Path.cwd())


_WANTED: ContextVar[Wanted | None] = ContextVar("wanted", default=None)


def wanted() -> Wanted | None:
    """Who wants a template now; None: nobody, the command is to be run."""
    return _WANTED.get()


def template_of(words: Sequence[str], wiring: Wiring) -> JobTemplate:
    """The template of `submit KIND …`, fit to be kept: full paths, a model, no password.

    UsageError: not such a command, or one that cannot be kept. What typer has to say of the words
    it says as for the command itself.
    """
    from app.cli import submit

    if not words or words[0] != "submit":
        said = " ".join(words[:2]) or "nothing"
        hint = "; an evaluation is `submit evaluate`" if words[:1] == ["eval"] else ""
        raise UsageError(f"only `submit KIND …` can be kept for later, not {said!r}{hint}")
    made = typer.Typer()
    made.callback()(lambda: None)
    submit.register(made)
    asked = Wanted(wiring)
    token = _WANTED.set(asked)
    try:
        command = typer.main.get_command(made)
        command.main(list(words), prog_name="giveway", standalone_mode=False)
    finally:
        _WANTED.reset(token)
    if asked.template is None:
        raise UsageError("that command makes no job")
    return asked.template
