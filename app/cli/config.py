"""`giveway config`: are the settings right, and what are they in effect?"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.errors import ConfigError

if TYPE_CHECKING:
    from app.settings import Settings

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="Settings file; else $GIVEWAY_CONFIG, else ./giveway.toml."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]

_WRONG_USE = 2


def register(app: typer.Typer) -> None:
    """Add the group `config` to `app`."""
    group = typer.Typer(no_args_is_help=True, help="Check and show the settings.")
    group.command("check")(check)
    group.command("show")(show)
    app.add_typer(group, name="config")


def check(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Check file and environment; every fault with its line. Exit 0: right, 2: wrong.

    An endpoint whose key is not set here is a warning: the workers may have it.
    """
    from app.declared.endpoints import check_installed
    from app.declared.knowledge import unset_keys
    from app.settings import load, settings_files

    file: Path | None = None
    try:
        file = settings_files(config)
        settings = load(config)
    except ConfigError as error:
        faults = str(error).splitlines()
        if as_json:
            typer.echo(json.dumps({"ok": False, "file": _named(file), "faults": faults}, indent=2))
        else:
            typer.echo("\n".join(faults), err=True)
        raise typer.Exit(_WRONG_USE) from error
    check_installed(settings)
    unset = unset_keys(settings, os.environ)
    if as_json:
        pools = [pool.name for pool in settings.pools]
        endpoints = [endpoint.name for endpoint in settings.endpoints]
        found = {"ok": True, "file": _named(file), "pools": pools, "endpoints": endpoints}
        typer.echo(json.dumps({**found, "faults": [], "warnings": unset}, indent=2))
    else:
        typer.echo(_verdict(settings, file))
        for sentence in unset:
            typer.echo(f"warning: {sentence}", err=True)


def show(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """The settings in effect: file, environment and defaults together. Secrets are masked."""
    from app.settings import load

    settings = load(config)
    if as_json:
        typer.echo(json.dumps(plain(settings), indent=2))
    else:
        typer.echo("\n".join(_toml_lines(plain(settings))))


def plain(value: Any) -> Any:
    """`value` as JSON has it, every secret masked."""
    from pydantic import BaseModel, SecretStr

    from app.settings.secrets import shown

    match value:
        case BaseModel():
            return {name: plain(getattr(value, name)) for name in type(value).model_fields}
        case SecretStr():
            return shown(value)
        case tuple() | list():
            return [plain(item) for item in value]
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case _:
            return value


def _verdict(settings: Settings, file: Path | None) -> str:
    pools = _counted(len(settings.pools), "pool")
    endpoints = _counted(len(settings.endpoints), "endpoint")
    if file is None:
        return f"no giveway.toml here; environment and defaults are right: {pools}, {endpoints}"
    return f"{file} is right: {pools}, {endpoints}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _named(file: Path | None) -> str | None:
    return str(file) if file else None


def _toml_lines(settings: dict[str, Any]) -> list[str]:
    """The settings as giveway.toml would say them; what is not set stands as a comment."""
    tables: list[str] = []
    top: list[str] = []
    for name, value in settings.items():
        if isinstance(value, dict):
            tables += ["", f"[{name}]", *_members(value)]
        elif isinstance(value, list):
            for element in value:
                tables += ["", f"[[{name}]]", *_members(element)]
        else:
            top.append(f"{name} = {json.dumps(value)}")
    return top + tables


def _members(table: dict[str, Any]) -> list[str]:
    return [f"{key} = {_written(v)}" if v is not None else f"# {key}" for key, v in table.items()]


def _written(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return json.dumps(value, ensure_ascii=False)
