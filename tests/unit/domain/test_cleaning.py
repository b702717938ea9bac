"""Cleaning and fingerprints: what Postgres takes, and equality of content."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.cleaning import (
    MAX_DEPTH,
    Cleaned,
    Flag,
    cleaned,
    cleaned_json,
    is_blank,
    is_clean,
)
from app.domain.fingerprint import ContentHash, canonical, content_hash, fingerprint

# Hypothesis leaves surrogates out unless they are asked for.
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))
ODD_TEXT = st.text(st.sampled_from("a\x00\ud800\udfff\ud83d\ude00é\ufffd "))
ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ODD_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(ODD_TEXT, inner),
    max_leaves=20,
)


@given(ANY_TEXT | ODD_TEXT)
def test_cleaned_text_is_what_postgres_takes(text: str) -> None:
    result = cleaned(text).text

    assert "\x00" not in result
    result.encode()  # no lone surrogate is left


@given(ANY_TEXT | ODD_TEXT)
def test_flags_say_whether_anything_changed(text: str) -> None:
    result = cleaned(text)

    assert bool(result.flags) == (result.text != text) == (not is_clean(text))


@given(ANY_TEXT | ODD_TEXT)
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once = cleaned(text).text

    assert cleaned(once) == Cleaned(once)


@pytest.mark.parametrize(
    ("text", "expected", "flags"),
    [
        ("plain", "plain", set()),
        ("naïve 🙂", "naïve 🙂", set()),
        ("a\x00b", "ab", {Flag.NUL}),
        ("a\ud800b", "a\ufffdb", {Flag.SURROGATE}),
        ("\ud83d\ude00", "😀", {Flag.SURROGATE}),
        ("\ud83d\x00\ude00", "😀", {Flag.NUL, Flag.SURROGATE}),
        ("\udc00\ud800", "\ufffd\ufffd", {Flag.SURROGATE}),
    ],
)
def test_each_fault_is_mended_and_named(text: str, expected: str, flags: set[Flag]) -> None:
    assert cleaned(text) == Cleaned(expected, frozenset(flags))


@given(ANY_JSON)
def test_cleaned_json_can_be_written_and_read_back(value: Any) -> None:
    result = cleaned_json(value)

    written = orjson.dumps(result.value)  # refuses surrogates and integers beyond 64 bits
    assert b"\\u0000" not in written
    json.dumps(result.value, allow_nan=False)


@given(ANY_JSON)
def test_json_without_flags_is_unchanged(value: Any) -> None:
    result = cleaned_json(value)

    if not result.flags:
        assert result.value == value


def test_every_fault_inside_json_is_flagged() -> None:
    value = {"a\x00": [math.nan, math.inf, "x\ud800"], "big": 10**30, "ok": [1, True, None]}

    result = cleaned_json(value)

    assert result.value == {"a": [None, None, "x\ufffd"], "big": 1e30, "ok": [1, True, None]}
    assert result.flags == {Flag.NUL, Flag.NUMBER, Flag.SURROGATE}


def test_json_nested_without_end_is_cut_not_a_recursion_error() -> None:
    value: Any = "deep"
    for _ in range(5_000):
        value = [value]

    result = cleaned_json(value)

    assert result.flags == {Flag.DEPTH}
    assert orjson.dumps(result.value) == b"[" * MAX_DEPTH + b"null" + b"]" * MAX_DEPTH


def test_an_integer_too_large_for_a_float_becomes_null() -> None:
    assert cleaned_json(10**400).value is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n\t\r",
        "\u200b",
        "\ufeff",
        "\u00a0\u2003",
        "\x00",
        "\u2060\u200d \u3164",
        "\ufe0f",
    ],
)
def test_what_shows_nothing_is_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", ["a", " a", "\u200b.\u200b", "漢", "0", "🙂", "\ufffd", "~"])
def test_what_shows_something_is_not_blank(text: str) -> None:
    assert not is_blank(text)


@given(st.lists(ANY_TEXT, max_size=4), st.lists(ANY_TEXT, max_size=4))
def test_parts_never_run_together(one: list[str], other: list[str]) -> None:
    assert (fingerprint(*one) == fingerprint(*other)) == (one == other)


def test_a_content_hash_depends_on_text_and_on_each_parameter() -> None:
    params = {"model": "m", "dim": 256}
    base = content_hash("text", params)

    assert len(base) == 16
    assert content_hash("text", {"dim": 256, "model": "m"}) == base
    assert content_hash("text", {"dim": 256.0, "model": "m"}) == base
    assert content_hash("text ", params) != base
    assert content_hash("text", {**params, "dim": 255}) != base
    assert content_hash("text", {**params, "prefix": ""}) != base


def test_one_object_hashes_many_texts_alike() -> None:
    hashes = ContentHash({"model": "m"})

    assert hashes.of("a") == hashes.of("a") == content_hash("a", {"model": "m"})
    assert hashes.of("a") != hashes.of("b")


def test_the_content_hash_is_the_stored_one() -> None:
    """If this fails, every stored embedding would be made again: raise VERSION on purpose."""
    assert content_hash("text", {"model": "m"}).hex() == "a257b95f0f51a1e1cd5ff3f649c10fc9"


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.booleans()))
def test_canonical_text_survives_jsonb(params: dict[str, Any]) -> None:
    assert canonical(json.loads(canonical(params))) == canonical(params)


def test_parameters_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        ContentHash({"scale": math.nan})
