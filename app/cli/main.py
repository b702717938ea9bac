"""`giveway`: every verb a person types. A module in this folder with `register(app)` is a command.

Such a module may say in `PANEL` under which heading `giveway --help` shows what it adds, and in
`ORDER` how far up there (0 is first). Modules named `*_view` draw; they are imported when used.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperGroup

import app.cli
from app.cli import render

PANELS = ("The stack", "Jobs", "Collections", "People", "The throttle", "Operations")
"""The headings, in their order; what names none stands under the last."""

Place = tuple[int, int, str]
"""Heading, place under it, module."""

_CLICK_ERROR: type[Any] = next(
    cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException"
)


class Giveway(TyperGroup):
    """The root: the one place where an error becomes a line and an exit code."""

    places: ClassVar[dict[str, Place]] = {}
    """Where each command stands in the help."""

    def list_commands(self, ctx: Any) -> list[str]:
        """By heading; typer alone would show all groups after all commands."""
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: self.places.get(name, (len(PANELS), 0, name)))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run, and leave with 0 done, 1 failed, 2 wrong use, 130 interrupted."""
        given = sys.argv[1:] if args is None else list(args)
        try:
            code = super().main(given, prog_name, complete_var, False, windows_expand_args, **extra)
            if code == render.INTERRUPTED:  # typer has made it of a KeyboardInterrupt
                code = render.tell(KeyboardInterrupt())
        except _CLICK_ERROR as error:
            code = _tell_wrong_use(error)
        except typer.Abort:
            code = render.tell(KeyboardInterrupt())
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last place there is
            code = render.tell(error, with_traceback="--traceback" in given)
        code = code if isinstance(code, int) else 0
        return sys.exit(code) if standalone_mode else code


def _tell_wrong_use(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # The help of a group that was given no command.
        return render.WRONG_USE
    typer.echo(f"giveway: {error.format_message()}", err=True)
    if getattr(error, "ctx", None) is not None:
        typer.echo(f"  see: {error.ctx.command_path} --help", err=True)
    return int(error.exit_code)


def _show_version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"giveway {version('giveway')}")
        raise typer.Exit


def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Say which version this is.",
            is_eager=True,
            callback=lambda wanted: _show_version(wanted=wanted),
        ),
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where an error came from.")
    ] = False,
) -> None:
    """Batch LLM work that gives way to people who are waiting.

    Begin with `giveway up`, then `giveway submit embed FILE`. Exit status: 0 done, 1 failed,
    2 wrong use.
    """


def build() -> typer.Typer:
    """The application with every command that this folder holds."""
    places: dict[str, Place] = {}
    made = typer.Typer(
        cls=type("Root", (Giveway,), {"places": places}),
        name="giveway",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(root)
    for module in _modules():
        commands, groups = len(made.registered_commands), len(made.registered_groups)
        module.register(made)
        for added in (made.registered_commands[commands:], made.registered_groups[groups:]):
            for one in added:
                places[_name(one)] = _placed(one, module)
    return made


def main() -> None:
    """The command `giveway`."""
    from app import logs

    logs.configure("WARNING")
    build()(prog_name="giveway")


def _modules() -> list[ModuleType]:
    found = (m.name for m in pkgutil.iter_modules(app.cli.__path__) if not m.ispkg)
    names = (name for name in found if name != "main" and not name.endswith("_view"))
    modules = [import_module(f"app.cli.{name}") for name in names]
    return [module for module in modules if hasattr(module, "register")]


def _name(command: Any) -> str:
    if isinstance(command.name, str):
        return command.name
    return str(command.callback.__name__).replace("_", "-")


def _placed(command: Any, module: ModuleType) -> Place:
    """Put the command under its own heading, or under that of its module; its place."""
    if not isinstance(command.rich_help_panel, str):
        command.rich_help_panel = getattr(module, "PANEL", PANELS[-1])
    panel = command.rich_help_panel
    at = PANELS.index(panel) if panel in PANELS else len(PANELS)
    return at, getattr(module, "ORDER", 50), module.__name__


if __name__ == "__main__":
    main()
