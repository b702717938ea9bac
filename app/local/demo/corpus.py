"""The demo's corpus: the docstrings of the installed Python standard library."""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import orjson

_LEAST_CHARACTERS = 20
_LEFT_OUT = frozenset(
    {
        "__pycache__", "dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data",
        "site-packages", "test", "tests", "turtledemo",
    }
)  # fmt: skip
"""Folders that hold other people's code, tests, or no code to speak of."""

_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstrings(root: Path | None = None) -> Iterator[tuple[str, str]]:
    """(qualified name, first paragraph) of everything documented below `root`, in a fixed order.

    `root` None: this Python's standard library. A name that comes again (a property's setter)
    counts up: `#2`. A file that this Python cannot parse is passed over.
    """
    base = Path(sysconfig.get_path("stdlib")) if root is None else root
    times: dict[str, int] = {}
    for path in sorted(base.rglob("*.py")):
        parts = path.relative_to(base).with_suffix("").parts
        if _LEFT_OUT.intersection(parts):
            continue
        module = ".".join(parts).removesuffix(".__init__")
        for name, text in _documented(path, module):
            times[name] = times.get(name, 0) + 1
            yield (name if times[name] == 1 else f"{name}#{times[name]}"), text


def write_corpus(path: Path, every: int = 1, root: Path | None = None) -> int:
    """Write it as JSONL with `id` and `text`, or each `every`-th of it; how many lines."""
    lines = [
        orjson.dumps({"id": name, "text": text})
        for name, text in islice(docstrings(root), None, None, every)
    ]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return len(lines)


def _documented(path: Path, module: str) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return
    yield from _below(tree, module)


def _below(node: _Documented, name: str) -> Iterator[tuple[str, str]]:
    text = " ".join((ast.get_docstring(node) or "").split("\n\n", maxsplit=1)[0].split())
    if len(text) >= _LEAST_CHARACTERS:
        yield name, text
    for inner in node.body:
        if isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _below(inner, f"{name}.{inner.name}")
