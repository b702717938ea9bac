"""A group in which every kind of job is a command; kinds are imported when one is looked for."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from typer.core import TyperGroup


class KindGroup(TyperGroup):
    """The commands it is given stand as they are; every other kind of job gets one made for it.

    Kinds import numpy: whoever shows the help above, or runs a command that was given, must not
    wait for that.
    """

    _given: MutableMapping[str, Any]
    _has_all = False

    @property
    def commands(self) -> MutableMapping[str, Any]:
        """All of them, by name."""
        if not self._has_all:
            from app.cli.parts.kind_commands import commands_of_kinds

            _declare_own_kinds()
            for name, command in commands_of_kinds(but=set(self._given)).items():
                self._given[name] = command
            self._has_all = True
        return self._given

    @commands.setter
    def commands(self, given: MutableMapping[str, Any]) -> None:
        self._given = given

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command called `cmd_name`, None: there is none. Kinds are looked at last."""
        return self._given.get(cmd_name) or super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that `args` begin with. UnknownName: no kind of job is called so."""
        from app.errors import UnknownName

        is_word = bool(args) and not args[0].startswith("-")
        if is_word and not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            raise UnknownName("job kind", args[0], list(self.commands))
        return super().resolve_command(ctx, args)


def _declare_own_kinds() -> None:
    """Add the kinds that `[kinds] modules` names, before any option of a command is read.

    Settings that cannot be read are no matter here: the command itself says so.
    """
    from app.cli.common import DEFAULT_DATA, settings_for
    from app.errors import GivewayError
    from app.kinds.registry import declare

    try:
        settings = settings_for(None, Path(os.environ.get("GIVEWAY_DATA") or DEFAULT_DATA))
    except GivewayError:
        return
    declare(settings.kinds.modules)
