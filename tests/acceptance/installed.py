"""Giveway as a wheel installs it, with one extra or none: run within a process of its own.

`python installed.py FOLDER EXTRA` reads lists of arguments as JSON from standard input and writes
what each command left. FOLDER holds the unpacked wheel; what neither it nor EXTRA requires is not
to be found, as in an environment that never had it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

STAYS = {"calibrate", "up", "demo", "simulated-endpoint", "load", "scaling agent", "scaling join"}
"""Commands that run long, or until somebody ends them, of which only the help is walked."""
GIVEN = {"eval run": ["answers.jsonl"], "endpoints add": ["--model", "m"]}
"""What a command is given beyond a word for each thing that it must have."""


class Hidden(importlib.abc.MetaPathFinder):
    """A finder that does not find what is hidden; else what stood there."""

    def __init__(self, within: Any, hidden: frozenset[str]) -> None:
        self._within, self._hidden = within, hidden

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] in self._hidden:
            return None
        found: importlib.machinery.ModuleSpec | None = self._within.find_spec(name, path, target)
        return found

    def find_distributions(self, *context: Any) -> Any:
        """Versions are asked for by some packages."""
        found = getattr(self._within, "find_distributions", None)
        return () if found is None else found(*context)


def required(name: str, extra: str, seen: set[tuple[str, str]]) -> None:
    """Every distribution that `name` with `extra` needs, into `seen`."""
    if (name, extra) in seen:
        return
    seen.add((name, extra))
    try:
        lines = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return
    for one in map(Requirement, lines):
        if one.marker is None or one.marker.evaluate({"extra": extra}):
            for more in ("", *one.extras):
                required(canonicalize_name(one.name), more, seen)


def hidden(extra: str) -> frozenset[str]:
    """Top-level modules that an environment with this extra alone has not."""
    seen: set[tuple[str, str]] = set()
    for one in {"", extra}:
        required("giveway", one, seen)
    there = {name for name, _ in seen}
    return frozenset(
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if not there & {canonicalize_name(owner) for owner in owners}
    )


def walked(command: Any, path: tuple[str, ...] = (), *, helps: bool) -> Iterator[list[str]]:
    """Every command there is with arguments that it takes, and with --help where `helps`."""
    if hasattr(command, "commands"):
        for name, one in command.commands.items():
            yield from walked(one, (*path, name), helps=helps)
        return
    if helps:
        yield [*path, "--help"]
    said = " ".join(path)
    if said in STAYS:
        return
    words: list[str] = []
    for one in command.params:
        if one.required:
            is_option = one.param_type_name == "option"
            words += [one.opts[0], "nosuch"] if is_option else ["nosuch"]
    yield [*path, *words, *GIVEN.get(said, [])]


def main(folder: str, extra: str) -> None:
    """Read, run, write."""
    sys.path.insert(0, folder)
    gone = hidden(extra)
    sys.meta_path[:] = [Hidden(one, gone) for one in sys.meta_path]
    for name in [name for name in sys.modules if name.partition(".")[0] in gone]:
        del sys.modules[name]

    import typer.main
    from typer.testing import CliRunner

    import app
    from app.cli.main import build

    assert app.__file__.startswith(folder), app.__file__
    unimportable = {}
    for module in pkgutil.walk_packages(app.__path__, "app."):
        try:
            importlib.import_module(module.name)
        except Exception as error:
            unimportable[module.name] = repr(error)
    command = build()
    asked = json.load(sys.stdin)
    done = []
    # Help needs no package, so it is enough to see it where there are fewest.
    ours = walked(typer.main.get_command(command), helps=not extra)
    for arguments in [*ours, *asked]:
        ran = CliRunner().invoke(command, arguments, prog_name="giveway")
        fault = ran.exception
        is_fault = fault is not None and not isinstance(fault, SystemExit)
        error = f"{ran.stderr}{fault!r}" if is_fault else ran.stderr
        done.append([" ".join(arguments), ran.exit_code, ran.stdout, error])
    json.dump({"unimportable": unimportable, "done": done, "gone": sorted(gone)}, sys.__stdout__)


if __name__ == "__main__":
    main(*sys.argv[1:])
