"""What is nested becomes columns, whose kind fits every row."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.flattening import column_kinds, flattened


def test_fields_are_joined_by_points_and_lists_of_objects_are_lists_of_fields() -> None:
    output = {"answers": ["a", "b"], "scores": {"m": [{"value": 1.0}, {"value": 0.5}]}, "no": None}
    assert flattened(output, "output") == {
        "output.answers": ["a", "b"],
        "output.scores.m.value": [1.0, 0.5],
    }
    one = {"answers": ["a"], "scores": {"m": [{"value": 1.0, "found": "7"}]}}
    assert flattened(one, "output", single=True) == {
        "output.answers": "a",
        "output.scores.m.value": 1.0,
        "output.scores.m.found": "7",
    }


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], "int"),
        ([1, 2.5], "float"),
        ([True, False], "bool"),
        ([True, 1], "json"),
        (["a"], "text"),
        (["a", 1], "json"),
        ([[1, 2], [0.5]], "floats"),
        ([["a"], []], "json"),
        ([2**63], "json"),
        ([{}], "json"),
    ],
)
def test_a_column_has_the_kind_that_fits_every_value(values: list[Any], kind: str) -> None:
    assert column_kinds({"c": value} for value in values) == {"c": kind}
