"""Every code that can stand in a row has a page, and the page tells what really follows from it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from app import errors
from app.domain.outcomes import (
    Bisect,
    Consequence,
    FailItems,
    HandBack,
    PauseJob,
    Retry,
    Snooze,
    Wait,
    consequence,
)

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "reference" / "errors"

WORDS: dict[type[Consequence], str] = {
    Retry: "retry",
    Snooze: "cool down",
    Wait: "wait",
    Bisect: "bisect",
    FailItems: "fail item",
    PauseJob: "pause job",
    HandBack: "hand back",
}
OTHERS = {"fail item", "no call", "no score", "fail request"}
"""What may follow from a code that is no endpoint's."""


def leaves(of: type[errors.EndpointError]) -> Iterator[type[errors.EndpointError]]:
    if not of.__subclasses__():
        yield of
    for below in of.__subclasses__():
        yield from leaves(below)


LEAVES = {leaf.code: leaf for leaf in leaves(errors.EndpointError)}

# Where a code is given away: by keyword, or at this place among the arguments.
_GIVERS = {"ItemResult": 2, "unscored": 0, "Score": 2, "_failed": 1, "fail_one": 3}
_KEYWORD_GIVERS = {*_GIVERS, "replace"}
_IN_SQL = re.compile(r"error_code = '([a-z_]+)',\s")


@cache
def codes_in_the_code() -> frozenset[str]:
    """The codes of leaves, and those that some module puts into a row itself."""
    trees = {path: ast.parse(path.read_text()) for path in sorted((ROOT / "app").rglob("*.py"))}
    constants: dict[str, set[str]] = {}
    for tree in trees.values():
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                for target in node.targets:
                    if isinstance(target, ast.Name) and isinstance(node.value.value, str):
                        constants.setdefault(target.id, set()).add(node.value.value)
    found = set(LEAVES)
    for path, tree in trees.items():
        own = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                found |= _given(node, own, constants)
            if (
                "storage" in path.parts
                and isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and "UPDATE interactive_requests" in node.value
            ):
                found |= set(_IN_SQL.findall(node.value))
    return frozenset(found)


def _given(call: ast.Call, own: dict[str, object], constants: dict[str, set[str]]) -> set[str]:
    name = getattr(call.func, "id", None) or getattr(call.func, "attr", None)
    if name not in _KEYWORD_GIVERS:
        return set()
    values = [keyword.value for keyword in call.keywords if keyword.arg == "code"]
    if name in _GIVERS:
        values += call.args[_GIVERS[name] : _GIVERS[name] + 1]
    found: set[str] = set()
    for value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            found.add(value.value)
        elif isinstance(value, ast.Name) and value.id.isupper():
            given = own.get(value.id)
            found |= {given} if isinstance(given, str) else constants.get(value.id, set())
    return found


def policy_of(code: str) -> str:
    page = (PAGES / f"{code}.md").read_text()
    stated = re.search(r"^Policy: (.+)$", page, re.MULTILINE)
    assert stated, f"{code}.md has no line `Policy: …`"
    return stated[1]


def really(leaf: type[errors.EndpointError]) -> str:
    """What follows from an error on many items, then where it differs: on one of them, and on
    items that had it before."""
    cases = [consequence(leaf("said so"), items, again) for again in (0, 1) for items in (10, 1)]
    words = list(dict.fromkeys(WORDS[type(case)] for case in cases))
    return ", then ".join(words)


def test_the_codes_are_found_wherever_they_are_given() -> None:
    assert codes_in_the_code() >= {
        "rate_limited",  # a leaf
        "empty",  # a literal of a kind
        "template",
        "crashed_worker",  # a constant of a service
        "kind_fault",
        "no_expected",  # of a scorer, imported from another module
        "internal",  # an argument
        "worker_lost",  # in SQL
    }


@pytest.mark.parametrize("code", sorted(codes_in_the_code()))
def test_every_code_has_a_page_that_is_in_the_index(code: str) -> None:
    page = PAGES / f"{code}.md"
    assert page.is_file(), (
        f"write {page.relative_to(ROOT)}: what it means, what is done, what to do"
    )
    text = page.read_text()
    assert text.startswith(f"# `{code}`\n")
    for part in ("**What it means.**", "**What Giveway does.**", "**What to do.**", "```sh"):
        assert part in text
    row = f"| [`{code}`]({code}.md) | {policy_of(code)} |"
    assert row in (PAGES / "README.md").read_text()


def test_no_page_is_about_a_code_that_does_not_exist() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} - {"README"} <= codes_in_the_code()


@pytest.mark.parametrize("code", sorted(LEAVES))
def test_the_page_of_an_endpoints_error_states_the_policy_that_is_carried_out(code: str) -> None:
    assert policy_of(code) == really(LEAVES[code])


@pytest.mark.parametrize("code", sorted(codes_in_the_code() - LEAVES.keys()))
def test_the_page_of_any_other_code_states_a_known_policy(code: str) -> None:
    assert policy_of(code) in OTHERS


def test_the_commands_on_the_pages_exist() -> None:
    import typer

    from app.cli.main import build

    top = typer.main.get_command(build())
    for page in PAGES.glob("*.md"):
        for line in re.findall(r"^giveway (.+)$", page.read_text(), re.MULTILINE):
            command: object = top
            for word in line.split():
                below = getattr(command, "commands", None)
                if below is None:
                    break
                assert word in below, f"{page.name}: giveway {line}"
                command = below[word]


def test_codes_are_unlike_each_other() -> None:
    assert len(LEAVES) == len(list(leaves(errors.EndpointError)))
