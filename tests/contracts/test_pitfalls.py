"""Every known fault has a test, and the test is there."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.contracts.pitfalls import CELERY, GAPS, INSTEAD, MODELS, SEEN, Row

TESTS = Path(__file__).parents[1]
ALL = (*CELERY, *MODELS, *SEEN)


@cache
def names_in(path: str) -> frozenset[str]:
    """The tests of a file: `name` or `Class::name`."""
    file = TESTS / path
    if not file.is_file():
        return frozenset()
    found: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            inner = (one.name for one in node.body if isinstance(one, ast.FunctionDef))
            found |= {f"{node.name}::{name}" for name in inner}
    return frozenset(name for name in found if name.split("::")[-1].startswith("test_"))


def missing(row: Row) -> list[str]:
    split = ((one, *one.split("::", 1)) for one in row[1])
    return [one for one, path, name in split if name not in names_in(path)]


@pytest.mark.parametrize("row", ALL, ids=lambda row: row[0])
def test_a_fault_is_held_by_tests_that_exist(row: Row) -> None:
    assert row[1] or row[0] in GAPS, "no test"
    assert missing(row) == []


def test_a_test_that_is_not_there_is_noticed() -> None:
    row = ("a fault", ("contracts/test_pitfalls.py::test_gone", "no/such.py::test_any"))
    assert missing(row) == list(row[1])


def test_each_fault_stands_once_and_gaps_are_of_faults() -> None:
    words = [what for what, _ in ALL]
    assert len(set(words)) == len(words)
    assert set(GAPS) | set(INSTEAD) <= set(words)
    assert [len(CELERY), len(MODELS), len(SEEN)] == [27, 24, 17]
