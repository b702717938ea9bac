"""As much of Helm's templates as our chart uses: enough to read what it makes without Helm.

Where Helm itself is installed, a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

_ACTION = re.compile(r"(\s*)\{\{(-?)\s*(.*?)\s*(-?)\}\}(\s*)", re.S)
_WORD = re.compile(r'"[^"]*"|\S+')

Node = tuple[str, str, list[Any]]


def rendered(chart: Path, release: str, **values: Any) -> list[dict[str, Any]]:
    """The documents of the chart with `values` over its own."""
    own = yaml.safe_load((chart / "values.yaml").read_text())
    root = {"Values": _merged(own, values), "Release": {"Name": release}}
    templates = sorted((chart / "templates").iterdir())
    defined: dict[str, list[Any]] = {}
    for path in templates:
        if path.suffix == ".tpl":
            _run(_parsed(path.read_text()), root, {"$": root}, defined)
    texts = [
        _run(_parsed(path.read_text()), root, {"$": root}, defined)
        for path in templates
        if path.suffix == ".yaml"
    ]
    found = [document for text in texts for document in yaml.safe_load_all(text)]
    return [document for document in found if document]


def _merged(own: Any, over: Any) -> Any:
    if not isinstance(own, Mapping) or not isinstance(over, Mapping):
        return over
    return {**own, **{key: _merged(own.get(key), value) for key, value in over.items()}}


def _parsed(text: str) -> list[Any]:
    """Texts and actions, blocks within their openers: ("range", words, children)."""
    stack: list[list[Any]] = [[]]
    at = 0
    for match in _ACTION.finditer(text):
        before, left, words, right, after = match.groups()
        stack[-1].append(text[at : match.start()] + ("" if left else before))
        name = words.split()[0]
        if name == "end":
            stack.pop()
        elif name in ("if", "range", "define"):
            block: Node = (name, words, [])
            stack[-1].append(block)
            stack.append(block[2])
        else:
            stack[-1].append(("put", words, []))
        stack[-1].append("" if right else after)
        at = match.end()
    stack[-1].append(text[at:])
    assert len(stack) == 1, "a block is not ended"
    return stack[0]


def _run(nodes: list[Any], dot: Any, names: dict[str, Any], defined: dict[str, list[Any]]) -> str:
    out: list[str] = []
    for node in nodes:
        if isinstance(node, str):
            out.append(node)
            continue
        name, words, children = node
        match name:
            case "define":
                defined[words.split()[1].strip('"')] = children
            case "if":
                if _value(words.removeprefix("if "), dot, names, defined):
                    out.append(_run(children, dot, names, defined))
            case "range":
                key, value, source = re.fullmatch(r"range (\$\w+), (\$\w+) := (.*)", words).groups()  # type: ignore[union-attr]
                for k, v in sorted(_value(source, dot, names, defined).items()):
                    out.append(_run(children, dot, {**names, key: k, value: v}, defined))
            case _:
                found = _value(words, dot, names, defined)
                out.append(found if isinstance(found, str) else str(found))
    return "".join(out)


def _value(words: str, dot: Any, names: dict[str, Any], defined: dict[str, list[Any]]) -> Any:
    """A pipeline: each function gets what came before as its last argument."""
    value: Any = None
    for number, part in enumerate(words.split(" | ")):
        head, *rest = _WORD.findall(part)
        arguments = [_path(word, dot, names) for word in rest]
        if number:
            arguments.append(value)
        match head:
            case "include":
                block = defined[arguments[0]]
                value = _run(block, arguments[1], {**names, "$": arguments[1]}, defined)
            case "nindent":
                pad = " " * int(arguments[0])
                value = "\n" + "\n".join(
                    pad + line if line else line for line in str(arguments[1]).split("\n")
                )
            case "toYaml":
                value = yaml.safe_dump(arguments[0], default_flow_style=False).rstrip("\n")
            case "add":
                value = sum(int(argument) for argument in arguments)
            case _:
                value = _path(head, dot, names)
    return value


def _path(word: str, dot: Any, names: dict[str, Any]) -> Any:
    if word.startswith('"'):
        return word.strip('"')
    if word.lstrip("-").isdigit():
        return int(word)
    first, _, rest = word.partition(".")
    value = dot if first == "" else names[first]
    for key in rest.split("."):
        value = value[key] if key else value
    return value
